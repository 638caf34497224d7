// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
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

// Revocations of one holder by ever other hosts wait as one in the end, which ends what each of them does, and nothing else:
// nor a yes that comes after them.
func TestManyRefusalsOfOneHolder(t *testing.T) {
	ctx, s, records, disk := filled(t, 1)
	const mirror = "mirror.test"
	v := verified(one)
	v.By = mirror
	disk.full.Store(false)
	s.MarkVerified(ctx, one.Digest, v, by(alice, Anonymous), name)
	flush(ctx, t, s)
	disk.full.Store(true)
	for i := range 3 * maxRefusals {
		refusals := []Refusal{{Host: fmt.Sprintf("mirror-%d.test", i)}, {Host: mirror}}
		if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, refusals...); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		s.mu.Lock()
		if n := len(s.pending.all()); n > maxRefusals {
			t.Errorf("%d wait", n)
		}
		s.mu.Unlock()
	}
	wantBy := func(state State, want ...string) {
		t.Helper()
		var got []string
		for _, proof := range state.Proofs(alice) {
			got = append(got, proof.By)
		}
		if !slices.Equal(got, want) || state.Proofs(bob) == nil || state.Proofs(Anonymous) == nil {
			t.Errorf("alice's proofs are of %v, want %v, of all in %v", got, want, state.Access)
		}
	}
	get := func() State {
		t.Helper()
		r, err := s.Get(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return r.State
	}
	wantBy(get(), origin.Host)
	s.MarkVerified(ctx, one.Digest, v, by(alice), name)
	wantBy(get(), mirror, origin.Host)
	disk.full.Store(false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantBy(Decode(name, one.Digest, labelsOf(ctx, t, records)), mirror, origin.Host)
}

// Nor does it grow where each of them ends a yes that waits as well, so that they are as many layers: of other repositories, nor of
// other holders who have another tag of its own.
func TestLayersOfOthersCostARecordNothing(t *testing.T) {
	mark := func(of string, holders ...int) map[string]string {
		all := verified(one).change()
		for _, i := range holders {
			all[LabelAccess+string(holder(i))] = Proof{noon, origin.Host}.encode()
		}
		return bound(of, one, all)
	}
	revoke := func(b *batch, repository string, i int) {
		b.revoke(revocation{place: placeOf("k8s.io", repository), holder: holder(i), refusals: []Refusal{origin}})
	}
	k := key{"k8s.io", name, one.Digest, 0}
	for what, repository := range map[string]func(i int) string{
		"other repositories":  func(i int) string { return fmt.Sprintf("registry.test/app-%d", i) },
		"the same repository": func(int) string { return "registry.test/app" },
	} {
		var allocations []float64
		for _, n := range []int{8, 1024} {
			var b batch
			b.add(k, mark(name, 1, 2))
			revoke(&b, "registry.test/app", 1)
			b.add(k, mark(name, 3))
			for i := range n {
				of := repository(i) + ":other"
				b.add(key{"k8s.io", of, one.Digest, 0}, mark(of, 4+i))
				revoke(&b, repository(i), 4+i)
			}
			if len(b) < n {
				t.Fatalf("%d layers", len(b))
			}
			x, below := b.index(), mark(name, 0)
			got := Decode(name, one.Digest, x.over(k, below))
			if len(got.Access) != 3 || got.Proofs(holder(1)) != nil {
				t.Errorf("%s: proofs of %v", what, got.Access)
			}
			allocations = append(allocations, testing.AllocsPerRun(10, func() {
				x.over(k, below)
				x.revokes(k, below)
			}))
		}
		if allocations[1] > 2*allocations[0] {
			t.Errorf("%s: among 8 layers it takes %.0f allocations, and among 1024 %.0f", what, allocations[0], allocations[1])
		}
	}
}

// holder is the i-th of many.
func holder(i int) Fingerprint { return Fingerprint(fmt.Sprintf("%032d", i)) }
