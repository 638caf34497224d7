// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"testing"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestSnapshotsThatNothingOfTheImageKeeps has an image, whose layers are discarded, reused by no snapshots that
// another tenant has left in the pod's snapshotter, by a pull that fails or an image that is removed later: the
// garbage collection would take them away before the container is there.
func TestSnapshotsThatNothingOfTheImageKeeps(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		other func(t *testing.T, img v1.Image) v1.Image
		fails bool
	}{
		"of a pull that fails":        {other: withBadLayer, fails: true},
		"of an image that is removed": {other: byAnotherAuthor},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Start(t, nodetest.Containers(t), nodetest.NativeRuntime(), nodetest.CRIImages("discard_unpacked_layers = true"))
			good, evil := resolvertest.New(t), resolvertest.New(t)
			n.Serve("good.test", good)
			n.Serve("evil.test", evil)
			n.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\npolicy = \"IfDigestChanged\"\n")
			img := running(t)
			n.PushTo(good, "app:1", img)
			n.PushTo(evil, "app:1", tc.other(t, img))
			const ref = "good.test/app:1"
			pod := n.RunPodOf("native", resolvertest.New(t))
			n.MustPull(ref) // for a pod of the default runtime
			n.CollectGarbage()
			if _, err := n.Pull("evil.test/app:1", node.RuntimeHandler("native")); tc.fails != (err != nil) {
				t.Fatalf("the other tenant's pull: %v", err)
			}
			mark := n.Mark()
			id := n.MustPull(ref, pod.Pulls())
			got := n.Decision(mark, ref)
			nodetest.Want(t, "outcome", got.Outcome+" ("+got.Reason+")", "Pulled (incomplete)")
			if !tc.fails {
				n.Remove("evil.test/app:1")
			}
			n.CollectGarbage()
			pod.Run("app", id, ref, nil)
			good.Refuse()
			n.MustPull(ref, pod.Pulls()) // the next pod falls back
		})
	}
}

// TestSnapshotsOfAnotherImageWithLayers has an image whose layers are on the node completed from these where another
// one has the same snapshots: nothing is taken from the registry, and the snapshots stay as the other goes.
func TestSnapshotsOfAnotherImageWithLayers(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.NativeRuntime(), nodetest.CRIImages("discard_unpacked_layers = false"))
	n.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\npolicy = \"IfDigestChanged\"\n")
	img := nodetest.Image(2)
	n.Push("app:1", img)
	n.Push("other:1", byAnotherAuthor(t, img))
	ref, native := nodetest.Named("app:1"), node.RuntimeHandler("native")
	n.MustPull(ref)
	n.MustPull(nodetest.Named("other:1"), native)
	config, err := img.ConfigName()
	n.Must(err)
	n.Registry.Forget()
	for range 2 {
		mark := n.Mark()
		n.MustPull(ref, native)
		got := n.Decision(mark, ref)
		nodetest.Want(t, "outcome", got.Outcome+" ("+got.Reason+")", "Unchanged (same_digest)")
		info, err := n.Client.ContentStore().Info(t.Context(), digest.Digest(config.String()))
		n.Must(err)
		if info.Labels["containerd.io/gc.ref.snapshot.native"] == "" {
			t.Error("the image does not keep its snapshots")
		}
	}
	nodetest.Want(t, "requests", n.Requests(), "HEAD manifests, HEAD manifests")
}

// TestImagesThatOthersHaveUnpacked has images reused that stock containerd's CRI and another client have unpacked for
// the pod's snapshotter, though their layers are discarded: each keeps its snapshots.
func TestImagesThatOthersHaveUnpacked(t *testing.T) {
	t.Parallel()
	for what, local := range map[string]string{"by the transfer service": "false", "by CRI's own pull": "true"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			settings := nodetest.CRIImages("discard_unpacked_layers = true", "use_local_image_pull = "+local)
			n := nodetest.New(t, nodetest.OnlySection(), nodetest.NativeRuntime(), settings)
			n.Push("app:1", nodetest.Image(1))
			n.Push("other:1", nodetest.Image(2))
			n.MustPull(nodetest.Named("app:1"), node.RuntimeHandler("native"))
			_, err := n.Client.Pull(namespaces.WithNamespace(t.Context(), "k8s.io"), n.Registry.Host()+"/other:1", containerd.WithPullUnpack,
				containerd.WithPullSnapshotter("native"), containerd.WithChildLabelMap(images.ChildGCLabelsFilterLayers))
			n.Must(err)
			n.CollectGarbage()
			n.Restart(nodetest.OnlySection("enabled = true", `default_policy = "IfDigestChanged"`, `access = "Any"`))
			for _, ref := range []string{nodetest.Named("app:1"), n.Registry.Host() + "/other:1"} {
				mark := n.Mark()
				n.MustPull(ref, node.RuntimeHandler("native"))
				got := n.Decision(mark, ref)
				nodetest.Want(t, "outcome of "+ref, got.Outcome+" ("+got.Reason+")", "Unchanged (same_digest)")
			}
		})
	}
}

// withBadLayer returns an image with one more layer, which is no tar.
func withBadLayer(t *testing.T, img v1.Image) v1.Image {
	t.Helper()
	bad, err := mutate.AppendLayers(img, static.NewLayer([]byte("junk"), types.DockerLayer))
	if err != nil {
		t.Fatal(err)
	}
	return bad
}

// byAnotherAuthor returns an image with the same layers and a config of its own.
func byAnotherAuthor(t *testing.T, img v1.Image) v1.Image {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.Author = "another tenant"
	other, err := mutate.ConfigFile(img, config)
	if err != nil {
		t.Fatal(err)
	}
	return other
}
