// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "testing"

// Once Revoke has returned no listing shows the proof, also where nothing had to be written.
func TestNoListingShowsWhatIsRevoked(t *testing.T) {
	ctx, s, records := newStore(t)
	t.Cleanup(func() { _ = s.Close() })
	create(ctx, t, records, one, nil)
	disk := &fullDisk{DB: s.db}
	s.db = disk
	disk.full.Store(true)
	shows := func() bool {
		t.Helper()
		found, err := s.First(ctx, [][]string{{name}})
		if err != nil {
			t.Fatal(err)
		}
		_, ok := found[0].Access[alice]
		return ok
	}
	stale := 0
	const times = 1000
	for range times {
		s.MarkVerified(ctx, one.Digest, verified(one), by(alice), name)
		if !shows() {
			t.Fatal("the test shows nothing")
		}
		if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); err != nil {
			t.Fatal(err)
		}
		if shows() {
			stale++
		}
	}
	if stale > 0 {
		t.Errorf("%d of %d listings show a proof whose revocation has returned", stale, times)
	}
}
