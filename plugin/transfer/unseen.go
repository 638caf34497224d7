// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/store"
)

// Unseen returns what becomes of what a record has said of the sources of an image that was pulled once more, and has all been
// fetched by now, where nobody has seen from whom: containerd does so without its transfer service. Documents that were fetched so
// have no labels in the content store, and those that were there have them, so that sources stay known only where all have. It records
// none where there were none. An image that was compared stays so: its digests are the same. Layers are left out: what they are unpacked
// to, which may be for a snapshotter that others do not use, tells whoever uses it: see [Service.Unpacked].
func (s *Service) Unseen(ctx context.Context, target ocispec.Descriptor) func(before store.State) store.State {
	all := imageSources{parts: sources{unknown: true}}
	if t := s.tracker.Load(); t != nil {
		w := &imageWalk{contents: t.contents, delivered: &deliveries{}, looksOn: true, target: target, seen: map[visit]bool{}}
		if err := w.document(ctx, target, true); err != nil {
			prefixlog.G(ctx).WithError(err).Debugf("not all sources of %s are known", target.Digest)
			w.parts.unknown = true
		}
		all = w.imageSources
	}
	return func(before store.State) store.State {
		if before.Compared || before.PullSource == "" {
			return before
		}
		after := applyTo(before, all.to(before).from)
		after.UnknownSources = before.UnknownSources || all.there.unknown || all.parts.unknown
		return after
	}
}
