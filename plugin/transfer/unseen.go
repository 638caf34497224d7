// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/store"
)

// labelled is what a time loses as a label.
const labelled = time.Second

// Unseen returns what becomes of what a record has said of the sources of an image that was pulled once more, and has all been
// fetched by now, where nobody has seen from whom: containerd does so without its transfer service. Documents that were fetched so
// have no labels in the content store, and have come since the record was told where all came from. Where there are such ones, not all
// sources are known. It records none where there were none. An image that was compared stays so: its digests are the same. Layers are left
// out: what they are unpacked to, which may be for a snapshotter that others do not use, tells whoever uses it: see [Service.Unpacked].
func (s *Service) Unseen(ctx context.Context, target ocispec.Descriptor) func(before store.State) store.State {
	var newest time.Time // of the documents of which nobody knows from where
	all := imageSources{parts: sources{unknown: true}}
	if t := s.tracker.Load(); t != nil {
		w := &imageWalk{contents: t.contents, delivered: &deliveries{}, looksOn: true, target: target, seen: map[visit]bool{}}
		if err := w.document(ctx, target, true); err != nil {
			prefixlog.G(ctx).WithError(err).Debugf("not all sources of %s are known", target.Digest)
			w.parts.unknown = true
		}
		all, newest = w.imageSources, w.newest
	}
	return func(before store.State) store.State {
		if before.Compared || before.PullSource == "" {
			return before
		}
		after := applyTo(before, all.to(before).from)
		fetched := newest.After(before.PulledAt.Add(labelled)) && all.there.unknown
		after.UnknownSources = before.UnknownSources || fetched || all.parts.unknown
		return after
	}
}
