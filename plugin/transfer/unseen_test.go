// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// After a pull of which nobody has seen from whom it fetched, a record says the sources of before, and that not all are known
// where something of the image has come without a source.
func TestUnseen(t *testing.T) {
	known := store.State{PullSource: "a/app:1", PulledAt: noon}
	unknown, both, compared := known, known, known
	unknown.UnknownSources = true
	both.ContentSources = []string{"a", "b"}
	compared.Compared = true
	none := func(*node, *fakeImage) {}
	refetched := func(which func(*fakeImage) ocispec.Descriptor) func(*node, *fakeImage) {
		return func(n *node, img *fakeImage) {
			desc := which(img)
			n.discard(desc)
			n.put(desc, img.blobs[desc.Digest])
		}
	}
	manifest := func(img *fakeImage) ocispec.Descriptor { return img.desc }
	config := func(img *fakeImage) ocispec.Descriptor { return img.config }
	layer := func(img *fakeImage) ocispec.Descriptor { return img.layers[1] }
	for what, tc := range map[string]struct {
		fetched      func(*node, *fakeImage)
		before, want store.State
	}{
		"nothing":           {none, known, known},
		"the manifest":      {refetched(manifest), known, unknown},
		"the config":        {refetched(config), known, unknown},
		"a layer":           {refetched(layer), known, unknown},
		"a layer, compared": {refetched(layer), compared, compared},
		"not all was known": {none, unknown, unknown},
		"none was recorded": {none, store.State{PulledAt: noon}, store.State{PulledAt: noon}},
		"a layer is discarded, and its snapshot is there": {
			func(n *node, img *fakeImage) { n.discard(layer(img)) }, known, known,
		},
		"the config is not there": {func(n *node, img *fakeImage) { n.discard(config(img)) }, known, unknown},
		"a layer that another pull has brought since": {func(n *node, img *fakeImage) {
			desc := layer(img)
			n.discard(desc)
			n.putSome(&fakeImage{blobs: map[digest.Digest][]byte{desc.Digest: img.blobs[desc.Digest]}}, "b")
		}, known, both},
	} {
		n := newNode(t, true)
		img := newImage("one", "two")
		n.putSome(img, "a")
		tc.fetched(n, img)
		if diff := cmp.Diff(tc.want, n.Unseen(n.ctx, img.desc)(tc.before)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}

// Where sources are not tracked, none is known.
func TestUnseenUntracked(t *testing.T) {
	n := newNode(t, false)
	if s := n.Unseen(n.ctx, newImage().desc)(store.State{PullSource: "a/app:1"}); !s.UnknownSources {
		t.Errorf("%+v", s)
	}
}
