// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

// ShareProofs gives a record the check and the proofs of another that it lacks, where
// both point at target. It returns when that is written. No revocation comes between
// the reads and the marks, so it brings no proof back. Records that are missing are no
// error.
func (s *Store) ShareProofs(ctx context.Context, target digest.Digest, from, to string) error {
	return s.sync(ctx, func() error {
		giver, err := s.getAt(ctx, target, from)
		if err != nil {
			return err
		}
		taker, err := s.getAt(ctx, target, to)
		if err != nil {
			return err
		}
		if change := lacking(giver, taker); len(change) > 0 {
			s.mark(ctx, target, []string{to}, func() map[string]string { return change })
		}
		return nil
	})
}

// getAt returns the state of a record that points at target; zero if there is none.
func (s *Store) getAt(ctx context.Context, target digest.Digest, name string) (State, error) {
	r, err := s.Get(ctx, name)
	switch {
	case errdefs.IsNotFound(err) || err == nil && r.Target.Digest != target:
		return State{}, nil
	case err != nil:
		return State{}, fmt.Errorf("read image record %q: %w", name, err)
	}
	return r.State, nil
}

// lacking are the labels of the check, and the proofs of holders, that the taker lacks. Proofs are
// given together with what a host said.
func lacking(giver, taker State) map[string]string {
	change := map[string]string{}
	if giver.Said() && !taker.Said() {
		change = giver.Verified.change()
		change[LabelMirrorDigest] = giver.MirrorDigest.String()
	}
	for f, proof := range giver.Access {
		if len(taker.Proofs(f)) == 0 {
			change[LabelAccess+string(f)] = proof.encode()
		}
	}
	for f, proof := range giver.Earlier {
		if len(taker.Proofs(f)) == 0 {
			change[besideProof(f)] = proof.encode()
		}
	}
	return change
}
