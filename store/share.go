// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// ShareProofs gives a record the check and the proofs of another that it lacks, where
// both point at target. The record is made where there is none, as one of CRI's, and says what the other
// does but for its pin. The proofs count there as they were given to the other. ShareProofs returns when that
// is written. No revocation comes between the reads and the writes, so it brings no proof back. Where there is no other record that is no error.
func (s *Store) ShareProofs(ctx context.Context, target digest.Digest, from, to string) error {
	return s.sync(ctx, func() error {
		giver, err := s.Get(ctx, from)
		if errdefs.IsNotFound(err) || err == nil && giver.Target.Digest != target {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read image record %q: %w", from, err)
		}
		taker, err := s.Get(ctx, to)
		switch {
		case errdefs.IsNotFound(err):
			return s.createLike(ctx, giver, to)
		case err != nil:
			return fmt.Errorf("read image record %q: %w", to, err)
		case taker.Target.Digest != target:
			return nil
		}
		if change := lacking(giver.State, taker.State); len(change) > 0 {
			s.mark(ctx, target, []string{to}, func() map[string]string {
				s.shareUses(ctx, from, to, change)
				return change
			})
		}
		return nil
	})
}

// createLike makes a record that says what the giver does. Proofs without the check that they hold by are
// no part of a state: without them the record would open the image, so it gets them as they are, and they
// prove nothing there either.
func (s *Store) createLike(ctx context.Context, giver Record, name string) error {
	giver.Pin = Pin{}
	all := labels.Present(giver.Labels(name, giver.Target.Digest))
	if giver.Restricted && !giver.Said() {
		img, err := s.images.Get(ctx, giver.Name)
		if err != nil {
			return fmt.Errorf("read image record %q: %w", giver.Name, err)
		}
		if img.Target.Digest != giver.Target.Digest || !copyProofs(all, img.Labels) {
			return nil
		}
	}
	all[labels.CRIManaged] = labels.CRIManagedValue
	_, err := s.images.Create(ctx, images.Image{Name: name, Target: giver.Target, Labels: all})
	switch {
	case errdefs.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("create image record %q: %w", name, err)
	}
	s.shareUses(ctx, giver.Name, name, all)
	return nil
}

// copyProofs reports whether there are any.
func copyProofs(to, from map[string]string) (copied bool) {
	for label, value := range from {
		if _, _, ok := holderOf(label); ok && value != "" {
			to[label], copied = value, true
		}
	}
	return copied
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
