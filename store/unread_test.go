// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	bolt "go.etcd.io/bbolt"
)

// commitFails is a database on a disk that is full for a while, as bbolt finds out: once all of a transaction has run.
type commitFails struct {
	DB
	full atomic.Bool
}

func (d *commitFails) Update(fn func(*bolt.Tx) error) error {
	return d.DB.Update(func(tx *bolt.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		if d.full.Load() {
			return syscall.ENOSPC
		}
		return nil
	})
}

// unreadable is a filled store whose records cannot be read for now, on a disk that is full once they can.
func unreadable(t *testing.T, n int) (context.Context, *Store, images.Store, *commitFails, damaged) {
	t.Helper()
	ctx, s, records, room := filled(t, n)
	disk, unread := &commitFails{DB: s.db}, damaged{t, room.DB}
	disk.full.Store(true)
	unread.set(true)
	if err := s.WriteProofs(ctx, func() error {
		room.full.Store(false)
		s.db = disk
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return ctx, s, records, disk, unread
}

// tried has the writer try once to write what waits, and returns how many revocations are left.
func tried(ctx context.Context, t *testing.T, s *Store, want error) int {
	t.Helper()
	if err := s.sync(ctx, noMarks); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending.all())
}

// Of refusals that came while the records could not be read those alone go on to wait, once they can be read, that have something
// to take away: also where nothing can be written then. What they have ended by then stays ended.
func TestRevocationsOfNothingOnceTheRecordsCanBeRead(t *testing.T) {
	ctx, s, records, disk, unread := unreadable(t, 1)
	const carol Fingerprint = "00000000000000000000000000000001"
	_, of := tenants(0)
	s.MarkVerified(ctx, one.Digest, verified(one), by(carol), name) // who has no proof on disk
	s.MarkVerified(ctx, one.Digest, Verified{At: noon, By: tenant.Host, Origin: true}, by(bob), of)
	for _, r := range []struct {
		repository string
		holder     Fingerprint
		refusal    Refusal
	}{
		{"registry.test/app", alice, origin},
		{"registry.test/app", bob, Refusal{Host: "mirror.test"}},
		{"registry.test/app", carol, origin},
		{"registry.test/app", "nobody", origin},
		{"registry.test/other", alice, origin},
		{"tenant.test/r0", bob, tenant},
	} {
		if err := s.Revoke(ctx, r.repository, []Fingerprint{r.holder}, r.refusal); !errors.Is(err, errUnlisted) {
			t.Fatal(err)
		}
	}
	wants := func() {
		t.Helper()
		wantWho(ctx, t, s, name, bob, Anonymous)
		wantWho(ctx, t, s, of)
	}
	wants()
	if n := tried(ctx, t, s, errUnlisted); n != 6 {
		t.Errorf("%d wait, of which nobody knows what they have to end", n)
	}
	unread.set(false)
	for range 2 {
		if n := tried(ctx, t, s, syscall.ENOSPC); n != 2 {
			t.Errorf("%d wait, two of which have anything to end on disk", n)
		}
		wants()
	}
	s.MarkVerified(ctx, one.Digest, verified(one), by(carol), name)
	wantWho(ctx, t, s, name, bob, carol, Anonymous)
	disk.full.Store(false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	all := labelsOf(ctx, t, records)
	wantHas(t, all, bob, carol, Anonymous)
	if all[LabelAccess+string(alice)] != "" {
		t.Error("alice's proof is on disk")
	}
	img, err := records.Get(ctx, of)
	if err != nil || len(Decode(of, one.Digest, img.Labels).Access) > 0 {
		t.Errorf("on disk are %v, %v", img.Labels, err)
	}
}

// Revocations that are known to have something to take away end nothing else either when the records cannot be read any more,
// however many they are: those that came meanwhile are counted alone.
func TestManyRevocationsThatHaveSomethingToEnd(t *testing.T) {
	const n = maxRevocations + 1
	ctx, s, _, disk, unread := unreadable(t, n+1)
	unread.set(false)
	refuse := func(f func(i int) Fingerprint) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range n {
			repository, _ := tenants(i)
			s.pending.revoke(revocation{place: placeOf("k8s.io", repository), holder: f(i), refusals: []Refusal{tenant}})
		}
	}
	refuse(func(int) Fingerprint { return bob })
	if left := tried(ctx, t, s, syscall.ENOSPC); left != n {
		t.Errorf("%d wait", left)
	}
	unread.set(true)
	if left := tried(ctx, t, s, errUnlisted); left != n {
		t.Errorf("%d wait", left)
	}
	_, first := tenants(0)
	_, last := tenants(n) // which has not been refused
	wantWho(ctx, t, s, first)
	wantWho(ctx, t, s, last, bob)
	refuse(func(i int) Fingerprint { return Fingerprint(fmt.Sprint(i)) }) // who knows whether they have any
	if left := tried(ctx, t, s, errUnlisted); left != n+1 {
		t.Errorf("%d wait", left)
	}
	wantWho(ctx, t, s, first)
	wantWho(ctx, t, s, last)
	wantWho(ctx, t, s, name, alice, bob, Anonymous)
	unread.set(false)
	disk.full.Store(false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
