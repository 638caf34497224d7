// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"testing"

	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

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
