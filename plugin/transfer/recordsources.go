// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"slices"

	"github.com/containerd/containerd/v2/core/images"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// remember notes what the image's records have said before, that of the image's own name first, as far as they can be read.
func (l *labelledRecords) remember(ctx context.Context, img images.Image) {
	l.before = nil
	for _, name := range []string{img.Name, l.canonicalName(img)} {
		if is, err := l.Get(ctx, name); err == nil && is.Target.Digest == img.Target.Digest {
			l.before = append(l.before, store.Decode(name, is.Target.Digest, is.Labels))
		}
	}
	l.known = knownOf(l.before)
	if l.sources != nil {
		there := l.sources.to(l.known).from
		l.before = append(l.before, store.State{ContentSources: there.Hosts, MoreSources: there.More})
	}
}

// foreseen returns what the record of the reference is to tell: its labels have no room for all sources, and
// those that they leave out are unknown ones. So are those of an image that runs layers of others, but for one that was compared.
func (l *labelledRecords) foreseen(ctx context.Context, target ocispec.Descriptor) (before store.State) {
	img, err := l.Get(ctx, l.plan.Reference)
	if err == nil && img.Target.Digest == target.Digest {
		before = store.Decode(img.Name, target.Digest, img.Labels)
	}
	s := store.Decode(l.plan.Reference, target.Digest, l.withSources(before, before).Labels(l.plan.Reference, target.Digest))
	s.UnknownSources = s.UnknownSources || !s.Compared && l.sources != nil && l.sources.borrowed
	return s
}

// withSources returns the state with the sources of the image, where the record had that one
// before. Each record tells of those by whose name the image was delivered: one that says nothing yet takes over what
// another says. Without a PullSource it is plain that not all of them are known. An image that was compared before keeps
// the hosts that it was compared with, whoever brought what is there: its digests are the same.
// What this pull has fetched from others came from these, too.
func (l *labelledRecords) withSources(s, before store.State) store.State {
	s.HasLayers = before.HasLayers || l.hasLayers
	switch {
	case l.compared.Reference != "":
		return WithComparedSince(l.before, s, l.compared)
	case l.sources == nil:
		return s
	}
	var own provenance.Provenance // hosts that stay beside those of another record
	switch {
	case before.PullSource == "":
		before = l.known
	case before.UnknownSources && l.known.Compared: // with what nobody knows
		own, before = provenance.Provenance{Hosts: sourcesOf(before).Hosts, More: before.MoreSources}, l.known
	}
	if before.Compared {
		return WithCompared(s, sourcesOf(before).Add(own).Add(l.sources.fetched.InOrder(l.sources.asks)))
	}
	all := l.sources.to(before)
	from := all.from.Add(l.compared)
	s.HasLayers = l.hasLayers || before.HasLayers && names(from, before)
	s = applyTo(s, from.InOrder(l.sources.asks))
	s.Compared, s.UnknownSources = false, all.unknown && s.PullSource != ""
	return s
}

// names reports whether all hosts of the state, by which it is known what they have shown, are among those.
func names(all provenance.Provenance, of store.State) bool {
	return of.MoreSources == 0 && !slices.ContainsFunc(sourcesOf(of).Hosts, func(host string) bool { return !slices.Contains(all.Hosts, host) })
}
