// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// besideTag is a node with a pod of a tenant who has two images as volumes, and another tenant's tag, which comes first among the
// names of one.
type besideTag struct {
	*nodetest.Node

	pod            *nodetest.Pod
	app            string // the ID of the image that containers run
	ofOne, ofOther nodetest.Volume
}

func newBesideTag(t *testing.T, one, other v1.Image) *besideTag {
	t.Helper()
	n := nodetest.New(t, nodetest.Containers(t))
	good, evil := resolvertest.New(t), resolvertest.New(t)
	n.Serve("good.test", good)
	n.Serve("a.evil.test", evil)
	n.PushTo(good, "app:1", nodetest.Busybox(t, 1, "sleep", "86400"))
	n.PushTo(good, "one:1", one)
	n.PushTo(good, "other:1", other)
	n.PushTo(evil, "app:1", one)
	b := &besideTag{
		Node: n, app: n.MustPull("good.test/app:1"),
		ofOne:   nodetest.Volume{ImageID: n.MustPull("good.test/one:1"), UserSpecified: "good.test/one:1"},
		ofOther: nodetest.Volume{ImageID: n.MustPull("good.test/other:1"), UserSpecified: "good.test/other:1"},
	}
	n.MustPull("a.evil.test/app:1")
	b.pod = n.RunPod(resolvertest.New(t))
	return b
}

// move lets the tag stand for the other image, which CRI cannot read by that. back undoes it.
func (b *besideTag) move() (back func()) {
	b.T.Helper()
	ctx := namespaces.WithNamespace(b.T.Context(), "k8s.io")
	records := b.Client.ImageService()
	tag, err := records.Get(ctx, "a.evil.test/app:1")
	b.Must(err)
	other, err := records.Get(ctx, "good.test/other:1")
	b.Must(err)
	update := func(target ocispec.Descriptor) {
		b.T.Helper()
		_, err := records.Update(ctx, images.Image{Name: tag.Name, Target: target}, "target")
		b.Must(err)
	}
	update(ocispec.Descriptor{MediaType: "application/vnd.test.unknown", Digest: other.Target.Digest, Size: other.Target.Size})
	return func() { b.T.Helper(); update(tag.Target) }
}

func (b *besideTag) create(name string, volumes ...nodetest.Volume) (string, error) {
	b.T.Helper()
	return b.pod.Create(name, b.app, "good.test/app:1", nil, volumes...)
}

// TestVolumesBesideAnotherTenantsTag holds that a pod has at each of its volumes the files of the image that it asks for, while
// another tenant's tag, which comes first among the names of one, stands for the other by now: CRI, which has not read that yet,
// mounts the one in the directory of the other, and would take this for right from then on. That CRI cannot read the tag keeps it so.
func TestVolumesBesideAnotherTenantsTag(t *testing.T) {
	t.Parallel()
	b := newBesideTag(t, resolvertest.Image(1, 2, 100), resolvertest.Image(2, 3, 100))
	back := b.move()
	if _, err := b.create("first", b.ofOne); err == nil {
		t.Error("a volume is mounted where another image is to be")
	}
	second, err := b.create("second", b.ofOther)
	b.Must(err)
	nodetest.Want(t, "the files of a volume", b.FilesAt(second, "/volume0"), "layer-0 layer-1 layer-2")

	back()
	third, err := b.create("third", b.ofOne, b.ofOther)
	b.Must(err)
	nodetest.Want(t, "the files of a volume", b.FilesAt(third, "/volume0"), "layer-0 layer-1")
	nodetest.Want(t, "the files of another volume", b.FilesAt(third, "/volume1"), "layer-0 layer-1 layer-2")
}

// TestVolumePathsBesideAnotherTenantsTag holds the same of a pod that has paths of these images: the path of the other is not in the
// image that CRI has mounted in its directory, and CRI makes no container by which that could be found. Once the tag stands where it
// stood, one is made.
func TestVolumePathsBesideAnotherTenantsTag(t *testing.T) {
	t.Parallel()
	b := newBesideTag(t, withDirectory(t, resolvertest.Image(1, 1, 100), "one"), withDirectory(t, resolvertest.Image(2, 1, 100), "other"))
	b.ofOne.SubPath, b.ofOther.SubPath = "one", "other"
	back := b.move()
	if _, err := b.create("first", b.ofOne, b.ofOther); err == nil {
		t.Error("a path is found in another image")
	}
	back()
	second, err := b.create("second", b.ofOne, b.ofOther)
	b.Must(err)
	nodetest.Want(t, "the files of a path", b.FilesAt(second, "/volume0"), "of-one")
	nodetest.Want(t, "the files of another path", b.FilesAt(second, "/volume1"), "of-other")
}

// TestVolumeAfterAnotherSnapshotter holds that a pod that runs while the node's snapshotter is changed goes on to have its volume,
// which CRI has mounted by the one before.
func TestVolumeAfterAnotherSnapshotter(t *testing.T) {
	t.Parallel()
	b := newBesideTag(t, resolvertest.Image(1, 2, 100), resolvertest.Image(2, 3, 100))
	_, err := b.create("first", b.ofOne)
	b.Must(err)
	b.Restart(nodetest.CRIImages("snapshotter = 'native'"))
	second, err := b.create("second", b.ofOne)
	b.Must(err)
	nodetest.Want(t, "the files of a volume", b.FilesAt(second, "/volume0"), "layer-0 layer-1")
}

// withDirectory returns an image that has one more layer, with a file in a directory of that name.
func withDirectory(t *testing.T, img v1.Image, name string) v1.Image {
	t.Helper()
	layer, err := nodetest.FileLayer(name+"/of-"+name, 0o644, nil)
	if err == nil {
		img, err = mutate.AppendLayers(img, layer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}
