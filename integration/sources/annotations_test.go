// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// toc is an annotation by which an image describes itself to a snapshotter.
const toc = "containerd.io/snapshot/stargz/toc.digest"

// reserved are those that are not the image's.
var reserved = []string{
	node.LabelPrefix + "content-sources", node.LabelPrefix + "pull-source",
	"containerd.io/snapshot/remote", "containerd.io/snapshot/remote/stargz.reference",
	"containerd.io/snapshot/cri.image-ref", "containerd.io/snapshot/cri.layer-digest",
	"containerd.io/snapshot/image-ref", "containerd.io/snapshot/devmapper/fstype", "containerd.io/snapshot/anything",
	"containerd.io/snapshot/uidmapping", "containerd.io/snapshot/parent-chain-id", "containerd.io/snapshot/max-size",
}

const forgedValue = "forged.test/app:1"

// annotated returns the image with those annotations on its layers.
func annotated(t *testing.T, seed int64) v1.Image {
	t.Helper()
	img := nodetest.Image(seed)
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	annotations := map[string]string{toc: "sha256:1"}
	for _, key := range reserved {
		annotations[key] = forgedValue
	}
	var addenda []mutate.Addendum
	for _, layer := range layers {
		addenda = append(addenda, mutate.Addendum{Layer: layer, Annotations: annotations})
	}
	made, err := mutate.Append(empty.Image, addenda...)
	if err != nil {
		t.Fatal(err)
	}
	if made, err = mutate.ConfigFile(made, config); err != nil {
		t.Fatal(err)
	}
	return made
}

// TestAnnotationsThatLabelSnapshots has images annotate their layers with what containerd
// makes labels of snapshots of. Those stay by which images describe themselves.
func TestAnnotationsThatLabelSnapshots(t *testing.T) {
	t.Parallel()
	pod := func(n *nodetest.Node, ref string) { n.MustPull(ref) }
	ctr := func(n *nodetest.Node, ref string) { n.Transfer(ref) }
	discard := []nodetest.Option{nodetest.CRIImages("discard_unpacked_layers = true")}
	for what, tc := range map[string]struct {
		pull func(n *nodetest.Node, ref string)
		opts []nodetest.Option
	}{"by a pod": {pod, nil}, "by ctr": {ctr, nil}, "by a pod that discards layers": {pod, discard}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, tc.opts...)
			n.Push("app:1", annotated(t, 1))
			tc.pull(n, nodetest.Named("app:1"))
			n.WantRunnable(nodetest.Named("app:1"))
			all := 0
			n.Must(n.Client.SnapshotService("overlayfs").Walk(t.Context(), func(_ context.Context, info snapshots.Info) error {
				all++
				nodetest.Want(t, toc, info.Labels[toc], "sha256:1")
				for _, key := range reserved {
					if info.Labels[key] == forgedValue {
						t.Errorf("snapshot %s has the label %s", info.Name, key)
					}
				}
				return nil
			}))
			nodetest.Want(t, "snapshots", all, 2)
		})
	}
}
