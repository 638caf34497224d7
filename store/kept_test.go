// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	bolt "go.etcd.io/bbolt"
)

// damaged are the records of a database among which there is for a while what is no record, so that nobody can tell what they have.
type damaged struct {
	t  *testing.T
	db DB
}

func (d damaged) set(yes bool) {
	d.t.Helper()
	none := []byte("none")
	if err := d.db.Update(func(tx *bolt.Tx) error {
		records := rawRecords(tx, "k8s.io")
		if !yes {
			return records.Delete(none)
		}
		return records.Put(none, none)
	}); err != nil {
		d.t.Fatal(err)
	}
}

// A revocation for which the records cannot be read holds in memory, as one that cannot be written does,
// and is tried again. A yes that is said meanwhile counts.
func TestRevocationWhileRecordsCannotBeRead(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice, bob), name)
	flush(ctx, t, s)
	unread := damaged{t, s.db}
	unread.set(true)
	for _, f := range []Fingerprint{alice, bob} {
		if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{f}, origin); !errors.Is(err, errUnlisted) {
			t.Errorf("got %v", err)
		}
	}
	wantWho(ctx, t, s, name)
	s.MarkVerified(ctx, one.Digest, verified(one), by(bob), name)
	wantWho(ctx, t, s, name, bob)
	unread.set(false)
	for range 100 {
		if labelsOf(ctx, t, records)[LabelAccess+string(alice)] == "" {
			break
		}
		time.Sleep(flushInterval)
	}
	wantHas(t, labelsOf(ctx, t, records), bob)
	wantWho(ctx, t, s, name, bob)
	if got := labelsOf(ctx, t, records)[LabelAccess+string(alice)]; got != "" {
		t.Error("the refused proof is still on disk")
	}
}

// A revocation that could not be written yet ends the proofs wherever they are once it can: another client may have
// moved the tag by then, or have given the image another name, or this one anew (ctr images import, ctr images tag), with its labels.
func TestUnwrittenRevocationOfATagThatMoves(t *testing.T) {
	const copied = "copy.test/app:1"
	for what, moves := range map[string]struct {
		there, back func(context.Context, images.Store) error
	}{
		"moved": {
			there: func(ctx context.Context, records images.Store) error { return move(ctx, records, two.Digest) },
			back:  func(ctx context.Context, records images.Store) error { return move(ctx, records, one.Digest) },
		},
		"copied": {
			there: func(ctx context.Context, records images.Store) error { return copyTo(ctx, records, name, copied) },
			back:  func(ctx context.Context, records images.Store) error { return copyTo(ctx, records, copied, name) },
		},
	} {
		for _, backFirst := range []bool{true, false} {
			ctx, s, records := newStore(t)
			create(ctx, t, records, one, nil)
			s.MarkVerified(ctx, one.Digest, verified(one), by(alice, bob), name)
			flush(ctx, t, s)
			disk := &fullDisk{DB: s.db}
			s.db = disk
			disk.full.Store(true)
			if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("got %v", err)
			}
			wantWho(ctx, t, s, name, bob)
			if err := moves.there(ctx, records); err != nil {
				t.Fatal(err)
			}
			write := func() {
				disk.full.Store(false)
				flush(ctx, t, s)
			}
			if !backFirst {
				write()
			}
			if err := moves.back(ctx, records); err != nil {
				t.Fatal(err)
			}
			wantWho(ctx, t, s, name, bob)
			if backFirst {
				write()
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if state := Decode(name, one.Digest, labelsOf(ctx, t, records)); state.Proofs(alice) != nil || state.Proofs(bob) == nil {
				t.Errorf("%s, written after all that: %v: on disk are %v", what, backFirst, state.Access)
			}
		}
	}
}

// move has another client give the tag to another image, and keep its labels.
func move(ctx context.Context, records images.Store, to digest.Digest) error {
	target := one
	target.Digest = to
	_, err := records.Update(ctx, images.Image{Name: name, Target: target}, "target")
	return err
}

// copyTo has another client give an image another name, with all labels, and take its own away.
func copyTo(ctx context.Context, records images.Store, from, to string) error {
	img, err := records.Get(ctx, from)
	if err != nil {
		return err
	}
	if err := records.Delete(ctx, from); err != nil {
		return err
	}
	_, err = records.Create(ctx, images.Image{Name: to, Target: img.Target, Labels: img.Labels})
	return err
}

// Too many revocations of as many registries that cannot be written end everybody's proofs, in their namespace, and hold no more memory.
func TestTooManyUnwrittenRevocations(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, nil)
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice, bob, Anonymous), name)
	flush(ctx, t, s)
	var b batch
	for i := range maxRevocations {
		b.revoke(revocation{place: placeOf("k8s.io", fmt.Sprintf("registry-%d.test/other", i)), holder: alice})
	}
	b.revoke(revocation{place: placeOf("k8s.io", "registry-0.test/other"), holder: alice}) // again
	b.bound()
	if n := len(b[0].revocations); n != maxRevocations {
		t.Errorf("%d wait, which are not too many", n)
	}
	b.revoke(revocation{place: placeOf("k8s.io", "registry.test/other"), holder: alice})
	b.bound()
	if len(b) != 1 || len(b[0].revocations) != 1 {
		t.Errorf("%d layers wait", len(b))
	}
	s.mu.Lock() // out of the writer's sight
	s.pending.then(b)
	s.mu.Unlock()
	wantWho(ctx, t, s, name)
	s.MarkVerified(ctx, one.Digest, verified(one), by(bob), name)
	wantWho(ctx, t, s, name, bob)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if state := Decode(name, one.Digest, labelsOf(ctx, t, records)); len(state.Access) != 1 || state.Proofs(bob) == nil {
		t.Errorf("on disk are %v", state.Access)
	}
}

// A revocation whose caller has gone before the writer came to it is written all the same.
func TestRevocationOfACallerThatHasGone(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, nil)
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice), name)
	flush(ctx, t, s)
	gone, leave := context.WithCancel(ctx)
	leave()
	err := s.WriteProofs(ctx, func() error { return s.Revoke(gone, "registry.test/app", []Fingerprint{alice}, origin) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantWho(ctx, t, s, name)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := labelsOf(ctx, t, records)[LabelAccess+string(alice)]; got != "" {
		t.Error("the proof is still on disk")
	}
}
