// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestVolumesBesideAnotherTenantsTag holds that a pod has at each of its volumes the files of the image that it asks for, while
// another tenant's tag, which comes first among the names of one, stands for the other by now: CRI, which has not read that yet,
// mounts the one in the directory of the other, and would take this for right from then on. That CRI cannot read the tag keeps it so.
func TestVolumesBesideAnotherTenantsTag(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Containers(t))
	good, evil := resolvertest.New(t), resolvertest.New(t)
	n.Serve("good.test", good)
	n.Serve("a.evil.test", evil)
	one, other := resolvertest.Image(1, 2, 100), resolvertest.Image(2, 3, 100)
	n.PushTo(good, "app:1", nodetest.Busybox(t, 1, "sleep", "86400"))
	n.PushTo(good, "one:1", one)
	n.PushTo(good, "other:1", other)
	n.PushTo(evil, "app:1", one)
	id := n.MustPull("good.test/app:1")
	ofOne := nodetest.Volume{ImageID: n.MustPull("good.test/one:1"), UserSpecified: "good.test/one:1"}
	ofOther := nodetest.Volume{ImageID: n.MustPull("good.test/other:1"), UserSpecified: "good.test/other:1"}
	n.MustPull("a.evil.test/app:1")
	pod := n.RunPod(resolvertest.New(t))

	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	records := n.Client.ImageService()
	tag, err := records.Get(ctx, "a.evil.test/app:1")
	n.Must(err)
	own, err := records.Get(ctx, "good.test/other:1")
	n.Must(err)
	move := func(target ocispec.Descriptor) {
		t.Helper()
		_, err := records.Update(ctx, images.Image{Name: tag.Name, Target: target}, "target")
		n.Must(err)
	}
	move(ocispec.Descriptor{MediaType: "application/vnd.test.unknown", Digest: own.Target.Digest, Size: own.Target.Size})
	if _, err := pod.Create("first", id, "good.test/app:1", nil, ofOne); err == nil {
		t.Error("a volume is mounted where another image is to be")
	}
	second, err := pod.Create("second", id, "good.test/app:1", nil, ofOther)
	n.Must(err)
	nodetest.Want(t, "the files of a volume", n.FilesAt(second, "/volume0"), "layer-0 layer-1 layer-2")

	move(tag.Target)
	third, err := pod.Create("third", id, "good.test/app:1", nil, ofOne, ofOther)
	n.Must(err)
	nodetest.Want(t, "the files of a volume", n.FilesAt(third, "/volume0"), "layer-0 layer-1")
	nodetest.Want(t, "the files of another volume", n.FilesAt(third, "/volume1"), "layer-0 layer-1 layer-2")
}
