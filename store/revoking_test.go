// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
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
	busy, free := make(chan struct{}), make(chan struct{})
	written := make(chan error, 1)
	go func() {
		written <- s.WriteProofs(ctx, func() error {
			close(busy)
			<-free
			return nil
		})
	}()
	<-busy
	revoked := make(chan error, 1)
	go func() { revoked <- s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin) }()
	for deadline := time.Now().Add(10 * time.Second); proofs(name) != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a proof counts whose revocation waits")
		}
	}
	if got := proofs(other); got != 2 {
		t.Errorf("the image of another repository has %d proofs", got)
	}
	select {
	case err := <-revoked:
		t.Errorf("it has not been written: %v", err)
	default:
	}
	close(free)
	for _, done := range []chan error{written, revoked} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	v := Verified{Digest: one.Digest, At: noon.Add(time.Hour), By: origin.Host, Origin: true}
	s.MarkVerified(ctx, one.Digest, v, by(alice), name)
	if got := proofs(name); got != 2 {
		t.Errorf("after a later yes it has %d proofs", got)
	}
	if err := s.Close(); err != nil || len(s.revoking) > 0 {
		t.Errorf("%d revocations still wait, %v", len(s.revoking), err)
	}
}
