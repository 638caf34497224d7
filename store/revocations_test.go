// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"testing"
)

// What a record costs, which is read in each listing and twice in each try to write, does not grow with how many others are
// revoked in its repository.
func TestRevocationsOfOthersCostARecordNothing(t *testing.T) {
	all := bound(name, one, map[string]string{LabelVerifiedDigest: one.Digest.String()})
	for i := range maxProofs {
		all[LabelAccess+fmt.Sprintf("%032d", i)] = Proof{noon, origin.Host}.encode()
	}
	k := key{"k8s.io", name, one.Digest, 0}
	var allocations []float64
	for _, n := range []int{maxProofs, 1024} {
		var rs revocations
		for i := range n {
			rs = rs.with(revocation{
				place: placeOf("k8s.io", "registry.test/app"), holder: Fingerprint(fmt.Sprintf("%032d", i)), refusals: []Refusal{origin},
			})
		}
		if ended := len(rs.change(k, all)); ended != maxProofs {
			t.Errorf("%d revocations end %d proofs", n, ended)
		}
		allocations = append(allocations, testing.AllocsPerRun(10, func() { rs.change(k, all) }))
	}
	if allocations[1] > 2*allocations[0] {
		t.Errorf("with the revocations of its holders alone it takes %.0f allocations, and with others %.0f", allocations[0], allocations[1])
	}
}
