// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
)

// A revocation that waits for the writer holds for who reads the proofs already, of the holder and the repository alone; and
// what its host says once it is written counts.
func TestRevocationThatWaits(t *testing.T) {
	const other = "registry.test/other:1"
	ctx, s, records := newStore(t)
	given := map[string]string{
		LabelVerifiedDigest: one.Digest.String(), LabelVerifiedAt: "2026-01-02T12:00:00Z", LabelVerifiedBy: origin.Host,
		LabelAccess + string(alice): Proof{noon, origin.Host}.encode(), LabelAccess + string(bob): Proof{noon, origin.Host}.encode(),
	}
	for _, of := range []string{name, other} {
		if _, err := records.Create(ctx, images.Image{Name: of, Target: one, Labels: bound(of, one, given)}); err != nil {
			t.Fatal(err)
		}
	}
	proofs := func(of string) int {
		t.Helper()
		r, err := s.Get(ctx, of)
		if err != nil {
			t.Fatal(err)
		}
		return len(r.Access)
	}
	end := waiting(ctx, t, s)
	if got := proofs(name); got != 1 {
		t.Errorf("the image has %d proofs, one of which is being revoked", got)
	}
	if got := proofs(other); got != 2 {
		t.Errorf("the image of another repository has %d proofs", got)
	}
	end()
	v := Verified{Digest: one.Digest, At: noon.Add(time.Hour), By: origin.Host, Origin: true}
	s.MarkVerified(ctx, one.Digest, v, by(alice), name)
	if got := proofs(name); got != 2 {
		t.Errorf("after a later yes it has %d proofs", got)
	}
	if err := s.Close(); err != nil || len(s.pending.revoking()) > 0 {
		t.Errorf("%d revocations still wait, %v", len(s.pending.revoking()), err)
	}
}

// waiting begins a revocation of alice's proofs for the repository while the writer is busy. end lets that go on.
func waiting(ctx context.Context, t *testing.T, s *Store) (end func()) {
	t.Helper()
	busy, free := make(chan struct{}), make(chan struct{})
	done := make(chan error, 2)
	go func() {
		done <- s.WriteProofs(ctx, func() error {
			close(busy)
			<-free
			return nil
		})
	}()
	<-busy
	go func() { done <- s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin) }()
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		waits = len(s.asked) > 0
		s.mu.Unlock()
	}
	return func() {
		t.Helper()
		close(free)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}

// One that waits opens no image: a proof beside which no check stands proves nothing, and is all that keeps others out.
func TestRevocationThatWaitsOpensNothing(t *testing.T) {
	ctx, s, records := newStore(t)
	given := bound(name, one, map[string]string{LabelAccess + string(alice): Proof{noon, origin.Host}.encode()})
	create(ctx, t, records, one, given)
	end := waiting(ctx, t, s)
	if r, err := s.Get(ctx, name); err != nil || !r.Restricted {
		t.Errorf("while it waits, %+v, %v", r, err)
	}
	end()
	if r, err := s.Get(ctx, name); err != nil || !r.Restricted {
		t.Errorf("once it is written, %+v, %v", r, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
