// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"

	"github.com/containerd/containerd/v2/core/images"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// states returns those of the image's records, that of the reference first, as far as they can be read.
func (l *labelledRecords) states(ctx context.Context, target ocispec.Descriptor) (all []store.State) {
	if l.plan == nil {
		return nil
	}
	for _, name := range []string{l.plan.Reference, l.canonicalName(images.Image{Name: l.plan.Reference, Target: target})} {
		if img, err := l.Get(ctx, name); err == nil && img.Target.Digest == target.Digest {
			all = append(all, store.Decode(name, target.Digest, img.Labels))
		}
	}
	return all
}

// know notes where the image came from, beside what its records have said before.
func (l *labelledRecords) know(sources imageSources) {
	l.sources, l.known = &sources, knownOf(l.before)
	there := sources.to(l.known).from
	l.before = append(l.before, store.State{ContentSources: there.Hosts, MoreSources: there.More})
}

// foreseen returns what the record of the reference is to tell: its labels have no room for all sources, and
// those that they leave out are unknown ones.
func (l *labelledRecords) foreseen(ctx context.Context, target ocispec.Descriptor) (before store.State) {
	img, err := l.Get(ctx, l.plan.Reference)
	if err == nil && img.Target.Digest == target.Digest {
		before = store.Decode(img.Name, target.Digest, img.Labels)
	}
	return store.Decode(l.plan.Reference, target.Digest, l.withSources(before, before).Labels(l.plan.Reference, target.Digest))
}

// withSources returns the state with the sources of the image, where the record had that one
// before. Each record tells of those by whose name the image was delivered: one that says nothing yet takes over what
// another says. Without a PullSource it is plain that not all of them are known. An image that was compared before keeps
// the hosts that it was compared with, whoever brought what is there: its digests are the same.
// What this pull has fetched from others came from these, too.
func (l *labelledRecords) withSources(s, before store.State) store.State {
	switch {
	case l.compared.Reference != "":
		return WithComparedSince(l.before, s, l.compared)
	case l.sources == nil:
		return s
	}
	if before.PullSource == "" {
		before = l.known
	}
	if before.Compared {
		return WithCompared(s, sourcesOf(before).Add(l.sources.fetched.InOrder(l.sources.asks)))
	}
	all := l.sources.to(before)
	s = applyTo(s, all.from)
	s.Compared, s.UnknownSources = false, all.unknown && s.PullSource != ""
	return s
}
