// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// A pull's yes after a refusal that could not be written counts: the refusal is written before it.
func TestPullAfterAnUnwrittenRevocation(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice, bob), name)
	flush(ctx, t, s)
	disk := &fullDisk{DB: s.db}
	s.db = disk
	disk.full.Store(true)
	if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := s.WriteProofs(ctx, func() error { return syscall.ENOSPC }); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the error of the pull is %v", err)
	}
	disk.full.Store(false) // the next try is a second off, or up to a minute
	state := State{PulledAt: noon, Verified: verified(two), Access: map[Fingerprint]Proof{alice: {noon, origin.Host}}}
	if err := s.WriteProofs(ctx, func() error {
		_, err := records.Update(ctx, images.Image{Name: name, Target: two, Labels: labels.Present(state.Labels(name, two.Digest))})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	wantWho(ctx, t, s, name, alice)
	flush(ctx, t, s)
	wantHas(t, labelsOf(ctx, t, records), alice)
}

// A revocation that one record alone could not take goes on to be about all: the record may get another name meanwhile.
func TestRevocationOfOneRecordThatIsCopied(t *testing.T) {
	const copied = "copy.test/app:1"
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice, bob), name)
	flush(ctx, t, s)
	disk := &unwritable{Store: records, name: name}
	s.images = disk
	if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); !errors.Is(err, errUnwritable) {
		t.Fatal(err)
	}
	wantWho(ctx, t, s, name, bob)
	if err := copyTo(ctx, records, name, copied); err != nil {
		t.Fatal(err)
	}
	disk.name = ""
	flush(ctx, t, s)
	if err := copyTo(ctx, records, copied, name); err != nil {
		t.Fatal(err)
	}
	wantWho(ctx, t, s, name, bob)
}

// A yes after a refusal that one record alone could not take counts on the others, by a check as by a pull, while it waits and on
// disk. The record's own proof stays ended until it can be written.
func TestYesAfterARevocationOfOneRecord(t *testing.T) {
	const bad = "registry.test/app:bad"
	later := noon.Add(time.Minute)
	for what, yes := range map[string]func(context.Context, *Store, images.Store) (images.Image, error){
		"check": func(ctx context.Context, s *Store, _ images.Store) (images.Image, error) {
			s.MarkVerified(ctx, one.Digest, Verified{At: later, By: origin.Host}, by(alice, bob), name)
			return images.Image{Target: one}, nil
		},
		"pull": func(ctx context.Context, s *Store, records images.Store) (images.Image, error) {
			state := State{PulledAt: later, Verified: verified(two), Access: map[Fingerprint]Proof{alice: {later, origin.Host}, bob: {later, origin.Host}}}
			pulled := images.Image{Name: name, Target: two, Labels: labels.Present(state.Labels(name, two.Digest))}
			return pulled, s.WriteProofs(ctx, func() error {
				_, err := records.Update(ctx, pulled)
				return err
			})
		},
	} {
		ctx, s, records := newStore(t)
		create(ctx, t, records, one, nil)
		if _, err := records.Create(ctx, images.Image{Name: bad, Target: one}); err != nil {
			t.Fatal(err)
		}
		s.MarkVerified(ctx, one.Digest, verified(one), by(alice, bob), name, bad)
		flush(ctx, t, s)
		disk := &unwritable{Store: records, name: bad}
		s.images = disk
		if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); !errors.Is(err, errUnwritable) {
			t.Fatal(err)
		}
		wantWho(ctx, t, s, name, bob)
		wantWho(ctx, t, s, bad, bob)
		after, err := yes(ctx, s, records)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // before another try, and after it
			wantWho(ctx, t, s, name, alice, bob)
			wantWho(ctx, t, s, bad, bob)
			if err := s.sync(ctx, noMarks); !errors.Is(err, errUnwritable) {
				t.Errorf("%s: %v", what, err)
			}
		}
		disk.name = ""
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if state := Decode(name, after.Target.Digest, labelsOf(ctx, t, records)); state.Proofs(alice) == nil || state.Proofs(bob) == nil {
			t.Errorf("%s: on disk are %v", what, state.Access)
		}
		img, err := records.Get(ctx, bad)
		if err != nil {
			t.Fatal(err)
		}
		if state := Decode(bad, one.Digest, img.Labels); state.Proofs(alice) != nil || state.Proofs(bob) == nil {
			t.Errorf("%s: on the record that could not be written are %v", what, state.Access)
		}
	}
}

// Denials of nothing that wait for the writer are no part of what others have written meanwhile, and count for nothing where that fails.
func TestDenialsOfNothingThatWait(t *testing.T) {
	ctx, s, _, disk := filled(t, 0)
	defer s.Close()
	const n = 50
	var denials sync.WaitGroup
	if err := s.WriteProofs(ctx, func() error {
		for i := range n {
			denials.Go(func() {
				if err := s.Revoke(ctx, "registry.test/other", []Fingerprint{Fingerprint(fmt.Sprint(i))}, origin); err != nil {
					t.Error(err)
				}
			})
		}
		for waiting := 0; waiting < n; time.Sleep(time.Millisecond) {
			s.mu.Lock()
			waiting = len(batch{{s.asked, nil}}.all())
			s.mu.Unlock()
		}
		s.MarkStale(ctx, one.Digest, Stale{noon, "unreachable"}, name)
		err := s.flush() //nolint:contextcheck // as the writer does in the midst of them
		if !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.pending.all()) > 0 {
			t.Error("they wait to be written")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	denials.Wait()
	wantWho(ctx, t, s, name, alice, bob, Anonymous)
	disk.full.Store(false)
}

// Revocations that the writer has not come to when the store is closed are written.
func TestRevocationsThatWaitForAClosedStore(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, nil)
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice, bob), name)
	flush(ctx, t, s)
	r := revocation{place: placeOf("k8s.io", "registry.test/app"), holder: alice, refusals: []Refusal{origin}}
	s.mu.Lock()
	s.asked = s.asked.with(r)
	s.mu.Unlock()
	wantWho(ctx, t, s, name, bob)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if state := Decode(name, one.Digest, labelsOf(context.WithoutCancel(ctx), t, records)); state.Proofs(alice) != nil || state.Proofs(bob) == nil {
		t.Errorf("on disk are %v", state.Access)
	}
}
