// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/store"
)

// drySide keeps the effects of a dry run to that run: a refusal takes proofs away from
// the records that it reads, and from no others. It is not safe for concurrent use.
type drySide struct {
	Records
	refusals []refusal
}

type refusal struct {
	holder store.Fingerprint
	by     store.Refusal
}

// Get returns a record without the proofs that were refused in this run.
func (s *drySide) Get(ctx context.Context, name string) (store.Record, error) {
	r, err := s.Records.Get(ctx, name)
	if err != nil || len(s.refusals) == 0 {
		return r, err
	}
	r.Access, r.Earlier = s.notRefused(name, r.Access), s.notRefused(name, r.Earlier)
	return r, nil
}

// notRefused returns the proofs, of a record by that name, that were not refused in this run.
func (s *drySide) notRefused(name string, proofs map[store.Fingerprint]store.Proof) map[store.Fingerprint]store.Proof {
	left := maps.Clone(proofs)
	maps.DeleteFunc(left, func(f store.Fingerprint, p store.Proof) bool {
		return slices.ContainsFunc(s.refusals, func(no refusal) bool { return no.holder == f && no.by.Ends(f, p, name) })
	})
	return left
}

// WriteSources implements Records.
func (*drySide) WriteSources(context.Context, digest.Digest, func(store.State) store.State, ...string) error {
	return nil
}

// Revoke implements Proofs.
func (s *drySide) Revoke(_ context.Context, _ string, holders []store.Fingerprint, refusals ...store.Refusal) error {
	for _, holder := range holders {
		for _, by := range refusals {
			s.refusals = append(s.refusals, refusal{holder, by})
		}
	}
	return nil
}

// ShareProofs implements Proofs.
func (*drySide) ShareProofs(context.Context, digest.Digest, string, string) error { return nil }

// WriteProofs implements Proofs.
func (*drySide) WriteProofs(_ context.Context, write func() error) error { return write() }

// Given implements Proofs.
func (*drySide) Given(context.Context, store.State, ...string) {}

// Used implements Proofs.
func (*drySide) Used(context.Context, store.Fingerprint, time.Time, ...string) {}

// MarkVerified implements Marks.
func (*drySide) MarkVerified(context.Context, digest.Digest, store.Verified, store.Proved, ...string) {
}

// MarkMirrored implements Marks.
func (*drySide) MarkMirrored(context.Context, digest.Digest, store.Verified, store.Proved, ...string) {
}

// MarkStale implements Marks.
func (*drySide) MarkStale(context.Context, digest.Digest, store.Stale, ...string) {}

// MarkPulled implements Marks.
func (*drySide) MarkPulled(context.Context, digest.Digest, func() store.State, ...string) {}

// dryRuntime is containerd for a dry run: it is only looked at.
type dryRuntime struct{ Runtime }

var errDry = errors.New("nothing is pulled in a dry run")

// Pull refuses.
func (dryRuntime) Pull(context.Context, *transfer.Plan) (string, error) { return "", errDry }

// Complete makes nothing.
func (dryRuntime) Complete(context.Context, ocispec.Descriptor, *transfer.Plan) error { return nil }
