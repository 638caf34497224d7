// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
)

// by are those who have proved access, whenever that is asked for.
func by(all ...Fingerprint) Proved { return func() []Fingerprint { return all } }

// pulled is a state, whenever it is asked for.
func pulled(s State) func() State { return func() State { return s } }

// No revocation comes between the decision who has proved access and the mark of it, nor
// between that and the write of a pull: it knows of what was written, or the writer of it.
func TestRevocationBesideAWriteOfProofs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s, records := newStore(t)
		defer s.Close()
		create(ctx, t, records, one, nil)
		var denied atomic.Bool
		ended := make(chan error, 1)
		revoke := func() {
			denied.Store(true)
			ended <- s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin)
		}
		decide := func() (proved []Fingerprint) {
			if !denied.Load() {
				proved = append(proved, alice)
			}
			go revoke()
			return proved
		}
		wantNone := func(what string) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
			r, err := s.Get(ctx, name)
			if err != nil || len(r.Access) != 0 {
				t.Errorf("%s: proved %v, %v", what, r.Access, err)
			}
			denied.Store(false)
		}
		s.MarkVerified(ctx, one.Digest, verified(one), decide, name)
		wantNone("a check")
		s.MarkPulled(ctx, one.Digest, func() State {
			state := State{Verified: verified(one), Access: map[Fingerprint]Proof{}}
			for _, f := range decide() {
				state.Access[f] = Proof{noon, "registry.test"}
			}
			return state
		}, name)
		wantNone("a pull")
		err := s.WriteProofs(ctx, func() error {
			proved := decide()
			synctest.Wait() // it has ended, or waits
			all := bound(name, one, map[string]string{LabelVerifiedDigest: one.Digest.String(), LabelVerifiedAt: encodeTime(noon)})
			for _, f := range proved {
				all[LabelAccess+string(f)] = Proof{noon, "registry.test"}.encode()
			}
			_, err := records.Update(ctx, images.Image{Name: name, Target: one, Labels: all})
			return err
		})
		if err != nil {
			t.Error(err)
		}
		wantNone("the write of a pull")
	})
}

// A write with proofs that has begun is waited for, and its error is its own.
func TestWriteProofsEnds(t *testing.T) {
	ctx, s, _ := newStore(t)
	ctx, cancel := context.WithCancel(ctx)
	ended, failed := false, errors.New("it fails")
	err := s.WriteProofs(ctx, func() error {
		cancel()
		ended = true
		return failed
	})
	if !ended || !errors.Is(err, failed) {
		t.Errorf("ended %v, %v", ended, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteProofs(t.Context(), func() error { panic("the store is closed") }); !errdefs.IsUnavailable(err) {
		t.Error(err)
	}
}
