// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/opencontainers/image-spec/identity"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// An image is unpacked for another snapshotter from what is on the node, without a record of it,
// and where it is unpacked nothing is read of its layers.
func TestUnpack(t *testing.T) {
	n := newNode(t)
	ref, _ := n.push("team/app:1", resolvertest.Image(1, 2, 100))
	id := n.pull(settings(), ref, "")
	p := n.puller(settings())
	img, err := n.Images.Get(n.ctx, ref)
	check(t, err)
	diffIDs, err := img.RootFS(n.ctx, n.Contents, platforms.Default())
	check(t, err)
	before, err := n.Images.List(n.ctx)
	check(t, err)
	check(t, p.Unpack(n.ctx, id, []string{"", "gone.test/app:1", ref}, "second"))
	n.collect()
	if n.snapshot("second", identity.ChainID(diffIDs)) == nil {
		t.Error("the image is not unpacked")
	}
	after, err := n.Images.List(n.ctx)
	check(t, err)
	if len(after) != len(before) {
		t.Errorf("%d records, and %d before", len(after), len(before))
	}
	manifest, err := images.Manifest(n.ctx, n.Contents, img.Target, platforms.Default())
	check(t, err)
	check(t, n.Contents.Delete(n.ctx, manifest.Layers[0].Digest))
	check(t, p.Unpack(n.ctx, id, []string{ref}, "second"))
	sn := n.Snapshotters["second"]
	check(t, sn.Remove(n.ctx, identity.ChainID(diffIDs).String()))
	check(t, sn.Remove(n.ctx, identity.ChainID(diffIDs[:1]).String()))
	if err := p.Unpack(n.ctx, id, []string{ref}, "second"); !errdefs.IsNotFound(err) {
		t.Errorf("an image without its layers: %v", err)
	}
}

// A checkpoint is one by the annotations of the document that a name stands for, as containerd reads that.
func TestIsCheckpoint(t *testing.T) {
	n := newNode(t)
	p := n.puller(settings())
	plain := resolvertest.Image(1, 2, 100)
	annotated := func(key string) resolvertest.Pushable {
		img, ok := mutate.Annotations(plain, map[string]string{key: "app"}).(v1.Image)
		if !ok {
			t.Fatal("no image")
		}
		return img
	}
	for tag, tc := range map[string]struct {
		image resolvertest.Pushable
		want  bool
	}{"checkpoint": {annotated(checkpointOf), true}, "annotated": {annotated("a"), false}, "plain": {plain, false}} {
		ref, _ := n.push("team/app:"+tag, tc.image)
		n.pull(settings(), ref, "")
		if got := p.IsCheckpoint(n.ctx, ref); got != tc.want {
			t.Errorf("%s: %v", tag, got)
		}
	}
	if p.IsCheckpoint(n.ctx, "gone.test/app:1") {
		t.Error("a name of nothing")
	}
}
