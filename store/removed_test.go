// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
)

// A record that is removed and made again while a mark of it waits is another
// one: neither does it show the mark, nor is the mark written to it.
func TestAMarkIsOfOneRecord(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	gate := &closedDB{DB: s.db, open: make(chan struct{}), waits: make(chan struct{}, 1)}
	s.db = gate
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice), name)
	<-gate.waits // the writer has taken the mark
	s.MarkVerified(ctx, one.Digest, verified(one), by(bob), name)
	wantWho(ctx, t, s, name, alice, bob)
	if err := records.Delete(ctx, name); err != nil {
		t.Fatal(err)
	}
	create(ctx, t, records, one, nil)
	wantWho(ctx, t, s, name)
	close(gate.open)
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
	wantWho(ctx, t, s, name)
	if got := labelsOf(ctx, t, records); len(got) != 0 {
		t.Errorf("the new record has %v", got)
	}
}

// Marks for what is not there, or not the image that was checked, do not wait for
// a record that would fit.
func TestAMarkWaitsForNoRecord(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice), name)
	create(ctx, t, records, one, nil)
	wantWho(ctx, t, s, name)
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
	wantWho(ctx, t, s, name)
}

// Among a thousand images whose proofs are being written, a revocation misses none.
func TestRevokeAmongManyWrites(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	const repository = "registry.test/app"
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("%s:%d", repository, i))
		if _, err := records.Create(ctx, images.Image{Name: names[i], Target: one}); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		s.MarkVerified(ctx, one.Digest, verified(one), by(alice, bob), names...)
		if err := s.Revoke(ctx, repository, []Fingerprint{alice}, origin); err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			wantWho(ctx, t, s, n, bob)
			img, err := records.Get(ctx, n)
			if err != nil {
				t.Fatal(err)
			}
			if img.Labels[LabelAccess+string(alice)] != "" {
				t.Fatalf("%s has the proof on disk", n)
			}
		}
	}
}

// A record that was removed and made again has another time, and one that gets another
// target, or a mark, has the same.
func TestARecordMadeAgainHasAnotherTime(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	read := func() time.Time {
		t.Helper()
		r, err := s.Get(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return r.CreatedAt
	}
	create(ctx, t, records, one, nil)
	made := read()
	if made.IsZero() {
		t.Error("the record has no time")
	}
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice), name)
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
	if _, err := records.Update(ctx, images.Image{Name: name, Target: two}); err != nil {
		t.Fatal(err)
	}
	if now := read(); !now.Equal(made) {
		t.Errorf("the record was made at %s, and after a change of it at %s", made, now)
	}
	if err := records.Delete(ctx, name); err != nil {
		t.Fatal(err)
	}
	create(ctx, t, records, two, nil)
	if now := read(); now.Equal(made) {
		t.Errorf("the record that was made again is from %s, as the one before", now)
	}
}
