// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/containerd/containerd/v2/core/snapshots"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAnnotationsOfAMovedTag holds that no container is made while the tag of its image stands for the next one, which CRI
// has not read yet: it would unpack that by itself for the pod's snapshotter, and label snapshots that others share.
func TestAnnotationsOfAMovedTag(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Containers(t), nodetest.NativeRuntime(), nodetest.Section(nodetest.IfDigestChanged))
	evil := resolvertest.New(t)
	n.Serve("a.test", evil)
	n.WriteRules("10.toml", "[[rule]]\nimages = [\"a.test/**\"]\nverify_timeout = \"1m\"\n")
	n.PushTo(evil, "app:1", running(t))
	pod := n.RunPodOf("native", resolvertest.New(t))
	id := n.MustPull("a.test/app:1", pod.Pulls())
	n.PushTo(evil, "app:1", longToRead(t, saidToBeRemote(t, nodetest.Layer(t, 77)), 20_000))
	whileItMoves(n, "a.test/app:1", func(name string) { // for a pod of the default runtime
		_, err := pod.Create(name, id, "a.test/app:1", nil)
		n.Must(err)
	})
	n.Must(n.Client.SnapshotService("native").Walk(t.Context(), func(_ context.Context, info snapshots.Info) error {
		if info.Labels["containerd.io/snapshot/remote"] != "" {
			t.Errorf("snapshot %s has the labels %v", info.Name, info.Labels)
		}
		return nil
	}))
}

// saidToBeRemote is an image of that base layer, which it says to be a remote snapshot.
func saidToBeRemote(t *testing.T, base v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.Append(empty.Image, mutate.Addendum{Layer: base, Annotations: map[string]string{"containerd.io/snapshot/remote": forgedValue}})
	if err != nil {
		t.Fatal(err)
	}
	config, err := running(t).ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	made, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.RootFS, config.History = made.RootFS, made.History
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}
