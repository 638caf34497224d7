// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// An image that was compared keeps the hosts that it was compared with, by other tags, too, and
// gets those of what a pull fetches anew. Each other image has what its parts say.
func TestSourcesOfComparedImages(t *testing.T) {
	const second = "registry.test/app:2"
	was := store.State{PullSource: "a/app:1", Compared: true}
	none := func(digest.Digest, store.State) store.State { return store.State{} }
	for what, tc := range map[string]struct {
		before store.State
		pull   func(n *node, img *fakeImage) error
		want   map[string]string
	}{
		"nothing is fetched": {was, func(n *node, img *fakeImage) error {
			return n.pullOf(&fakeSource{fakeImage: img, host: "b"}, second, false)
		}, map[string]string{"pull-source": "a/app:1", "compared": "true"}},
		"documents are fetched from there": {was, func(n *node, img *fakeImage) error {
			return n.pullOf(&fakeSource{fakeImage: img, host: "a"}, second, true)
		}, map[string]string{"pull-source": "a/app:1", "compared": "true"}},
		"documents are fetched from elsewhere": {was, func(n *node, img *fakeImage) error {
			return n.pullOf(&fakeSource{fakeImage: img, host: "b"}, second, true)
		}, map[string]string{"pull-source": "a/app:1", "content-sources": "a,b", "compared": "true"}},
		"it is completed": {was, func(n *node, img *fakeImage) error {
			s := &labelledStore{imageStore: image.NewStore(second), tracker: n.tracker.Load(), plan: &Plan{Reference: second, State: none}}
			_, err := s.Store(n.ctx, img.desc, n.images)
			return err
		}, map[string]string{"pull-source": "a/app:1", "compared": "true"}},
		"it was not compared": {store.State{PullSource: "a/app:1"}, func(n *node, img *fakeImage) error {
			return n.pullOf(&fakeSource{fakeImage: img, host: "b"}, second, false)
		}, map[string]string{"pull-source": "a/app:1", "unknown-sources": "true"}},
	} {
		n := newNode(t, true)
		img := newImage("a layer")
		for d, data := range img.blobs {
			n.put(ocispec.Descriptor{Digest: d, Size: int64(len(data))}, data) // nobody knows from where
		}
		canonical := canonicalOf(img)
		n.create(canonical, img.desc, tc.before.Labels(canonical, img.desc.Digest))
		if err := tc.pull(n, img); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{second, canonical} {
			got := own(n.labels(name))
			delete(got, "pulled-at")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: labels of %s (-want +got):\n%s", what, name, diff)
			}
		}
	}
}

// A plan compares an image by the sources that its record is to name, before there is one. The record
// names those that it was compared with.
func TestComparedBeforeItIsStored(t *testing.T) {
	foreign := store.State{PullSource: "a/app:1", UnknownSources: true}
	for what, tc := range map[string]struct {
		before   store.State
		foreseen store.State // of sources
		from     provenance.Provenance
		err      error
		want     map[string]string
	}{
		"it has compared": {
			foreseen: foreign, from: provenance.Provenance{Reference: "b/app:1", Hosts: []string{"b", "c"}},
			want: map[string]string{"pull-source": "b/app:1", "content-sources": "b,c", "compared": "true", "has-layers": "true"},
		},
		"it has not": {foreseen: foreign, want: map[string]string{"pull-source": "a/app:1", "unknown-sources": "true"}},
		"it differs": {foreseen: foreign, err: errRefused},
		"it was compared before": {
			before: store.State{PullSource: "c/app:1", Compared: true}, foreseen: store.State{PullSource: "c/app:1", ContentSources: []string{"c", "a"}, Compared: true},
			want: map[string]string{"pull-source": "c/app:1", "content-sources": "c,a", "compared": "true"},
		},
	} {
		n := newNode(t, true)
		img := newImage("a layer")
		for _, layer := range img.layers {
			n.put(layer, img.blobs[layer.Digest]) // nobody knows from where
		}
		if tc.before.Compared {
			n.create(appName, img.desc, tc.before.Labels(appName, img.desc.Digest))
		}
		var foreseen store.State
		err := n.Pull(n.ctx, &Plan{
			Reference: appName, Source: &fakeSource{fakeImage: img, host: "a"},
			Compare: func(_ context.Context, sources store.State, _ func(digest.Digest) bool) (provenance.Provenance, error) {
				foreseen = store.State{
					PullSource: sources.PullSource, ContentSources: sources.ContentSources,
					UnknownSources: sources.UnknownSources, Compared: sources.Compared,
				}
				return tc.from, tc.err
			},
			State: func(digest.Digest, store.State) store.State { return store.State{} },
		}, image.NewStore(appName))
		if diff := cmp.Diff(tc.foreseen, foreseen); !errors.Is(err, tc.err) || diff != "" {
			t.Errorf("%s: %v, foreseen (-want +got):\n%s", what, err, diff)
		}
		for _, name := range []string{appName, canonicalOf(img)} {
			if labels := n.labels(name); tc.err != nil && labels != nil {
				t.Errorf("%s: there is a record of %s: %v", what, name, labels)
			} else if diff := cmp.Diff(tc.want, own(labels), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: labels of %s (-want +got):\n%s", what, name, diff)
			}
		}
	}
}

// Each record of an image tells of those by whose name its documents were delivered: a pull that fetches nothing takes
// nothing over to a record that says something, be it from the other record or from what is written with the content.
func TestSourcesOfEachRecord(t *testing.T) {
	const second = "registry.test/app:2"
	silent, a, b := store.State{}, store.State{PullSource: "a/app:2"}, store.State{PullSource: "b/app:1"}
	unsure, compared := store.State{PullSource: "b/app:1", UnknownSources: true}, store.State{PullSource: "a/app:2", Compared: true}
	for what, tc := range map[string]struct {
		tag, byDigest         store.State
		wantTag, wantByDigest string
	}{
		"both say nothing":         {silent, silent, "of/app:1", "of/app:1"},
		"the tag says nothing":     {silent, a, "a/app:2 of a,of", "a/app:2 of a,of"},
		"the digest says nothing":  {a, silent, "a/app:2 of a,of", "a/app:2 of a,of"},
		"each says another":        {a, b, "a/app:2 of a,of", "b/app:1 of b,of"},
		"the tag is compared":      {compared, b, "a/app:2 compared", "b/app:1 of b,of"},
		"… the digest has unknown": {compared, unsure, "a/app:2 compared", "a/app:2 of a,b compared"},
		"… the digest has none":    {compared, silent, "a/app:2 compared", "a/app:2 compared"},
		"the digest is compared":   {b, compared, "b/app:1 of b,of", "a/app:2 compared"},
		"… the tag has unknown":    {unsure, compared, "a/app:2 of a,b compared", "a/app:2 compared"},
		"… the tag has none":       {silent, compared, "a/app:2 compared", "a/app:2 compared"},
	} {
		n := newNode(t, true)
		img := newImage("a layer")
		n.putSome(img, "of")
		canonical := canonicalOf(img)
		n.create(second, img.desc, tc.tag.Labels(second, img.desc.Digest))
		n.create(canonical, img.desc, tc.byDigest.Labels(canonical, img.desc.Digest))
		if err := n.pullOf(&fakeSource{fakeImage: img, host: "c"}, second, false); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{second: tc.wantTag, canonical: tc.wantByDigest} {
			got := own(n.labels(name))
			text := got["pull-source"]
			if hosts := got["content-sources"]; hosts != "" {
				text += " of " + hosts
			}
			if got["compared"] != "" {
				text += " compared"
			}
			if text != want || got["unknown-sources"] != "" {
				t.Errorf("%s: %s says %v, want %s", what, name, got, want)
			}
		}
	}
}
