// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// What is remembered of how proofs were given goes with the proofs, also while nothing can be written: whom a registry lets in
// and then refuses, as often as its owner likes, leaves nothing behind.
func TestUsesOfProofsThatAreGoneWhileTheDiskIsFull(t *testing.T) {
	ctx, s, records := newStore(t)
	t.Cleanup(func() { _ = s.Close() })
	create(ctx, t, records, one, nil)
	disk := &commitFails{DB: s.db}
	s.db = disk
	s.MarkVerified(ctx, one.Digest, verified(one), by(bob), name)
	flush(ctx, t, s)
	disk.full.Store(true)
	for i := range 3 * maxProofs {
		f := Fingerprint(fmt.Sprintf("%032x", i))
		s.MarkVerified(ctx, one.Digest, verified(one), by(f), name)
		if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{f}, origin); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	if err := s.sync(ctx, noMarks); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if got := len(s.uses.known(recordName{"k8s.io", name})); got > maxProofs {
		t.Errorf("%d uses are remembered, of 1 proof", got)
	}
	disk.full.Store(false)
}
