// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// Unpacked implements Sources.
func (n *node) Unpacked(context.Context, ocispec.Descriptor, string) (from provenance.Provenance, known bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return provenance.Provenance{Hosts: n.unpacked}, !slices.Contains(n.unpacked, "?"), nil
}

// Compared implements Sources.
func (n *node) Compared(context.Context, ocispec.Descriptor, string) error { return nil }

// An image whose record names allowed hosts alone is none of theirs where the request's snapshotter
// has layers from elsewhere, unless it was compared.
func TestForeignLayersOfASnapshotter(t *testing.T) {
	for _, tc := range []struct {
		unpacked string
		compared bool
		foreign  bool
	}{
		{"registry.test", false, false},
		{"mirror.test", false, true},
		{"?", false, true},
		{"mirror.test", true, false},
		{"?", true, false},
	} {
		for _, up := range []bool{true, false} {
			n := &node{remote: first, record: cachedImage(first, now), unpacked: []string{tc.unpacked}}
			n.record.PullSource, n.record.Compared = name, tc.compared
			want := UsedCached
			switch {
			case up && tc.foreign:
				want = Pulled
			case up:
				want = Unchanged
			case tc.foreign:
				want = Failed
			}
			if !up {
				n.checkFails = failure.Unreachable
			}
			e := n.engine(rule(`policy = "IfDigestChanged"`, `allowed_sources = ["registry.test"]`))
			o, err := e.Ensure(t.Context(), n.request(nil))
			if o.Kind != want || (len(n.verifiedContent) > 0) != (want == Pulled) {
				t.Errorf("%+v, up %v: got %s (%s), %v; compared %v", tc, up, o.Kind, o.Reason, err, n.verifiedContent)
			}
			if want != Pulled {
				continue
			}
			if o, err = e.Ensure(t.Context(), n.request(nil)); o.Kind != Unchanged || !n.record.Compared {
				t.Errorf("%+v: after the comparison got %s (%s), %v", tc, o.Kind, o.Reason, err)
			}
		}
	}
}

// A pull whose image others have given layers from elsewhere meanwhile is compared after it, too.
func TestForeignLayersThatComeWithAPull(t *testing.T) {
	for _, from := range []string{"registry.test", "mirror.test", "?"} {
		n := &node{remote: first}
		n.onStore = func(s *store.State) { s.PullSource, n.unpacked = name, []string{from} }
		o, err := n.engine(rule(`policy = "IfNotPresent"`, `allowed_sources = ["registry.test"]`)).Ensure(t.Context(), n.request(nil))
		if foreign := from != "registry.test"; err != nil || o.Kind != Pulled || n.record.Compared != foreign || (len(n.verifiedContent) > 0) != foreign || n.pulls != 1 {
			t.Errorf("%s: got %s (%s), %v; compared %v", from, o.Kind, o.Reason, err, n.verifiedContent)
		}
	}
}

// A compared image is as any other of the hosts that its record names.
func TestComparedImage(t *testing.T) {
	for _, tc := range []struct {
		content []string
		want    Kind
	}{
		{nil, Present},
		{[]string{"registry.test", "mirror.test"}, Failed},
	} {
		n := &node{record: cachedImage(first, now)}
		n.record.PullSource, n.record.ContentSources, n.record.Compared = name, tc.content, true
		o, err := n.engine(rule(`policy = "Never"`, `allowed_sources = ["registry.test"]`)).Ensure(t.Context(), n.request(nil))
		if o.Kind != tc.want {
			t.Errorf("%v: got %s (%s), %v", tc.content, o.Kind, o.Reason, err)
		}
	}
}

// An image is compared before it is used on layers from elsewhere, also where these came while it was completed.
func TestCompletedOntoLayersOfASnapshotter(t *testing.T) {
	for _, from := range []string{"registry.test", "mirror.test", "?"} {
		for _, meanwhile := range []bool{false, true} {
			n := &node{record: cachedImage(first, now), remote: first, packed: true, unpacked: []string{from}}
			n.record.PullSource = name
			if meanwhile {
				n.unpacked, n.onStore = nil, func(*store.State) { n.unpacked = []string{from} }
			}
			o, err := n.engine(rule(`policy = "IfNotPresent"`, `allowed_sources = ["registry.test"]`)).Ensure(t.Context(), n.request(nil))
			want := Pulled
			if from == "registry.test" {
				want = Present
			}
			if o.Kind != want || err != nil {
				t.Errorf("%s, meanwhile %v: got %s (%s), %v", from, meanwhile, o.Kind, o.Reason, err)
			}
			if (len(n.verifiedContent) > 0) != (want == Pulled) {
				t.Errorf("%s, meanwhile %v: compared %v", from, meanwhile, n.verifiedContent)
			}
		}
	}
}
