// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package stargz

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// lazily has an image unpacked by the stargz snapshotter.
var lazily = node.RuntimeHandler("stargz")

// TestLazyPull holds that an image of eStargz layers is pulled without their bytes,
// reused as stock containerd reuses it, read from the registry by what runs, and pulled
// anew when its tag has moved.
func TestLazyPull(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]nodetest.Option{"byTransferService": nil, "byCRI": {byCRI}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testLazyPull(t, newNode(t, opts...))
		})
	}
}

func testLazyPull(t *testing.T, n *nodetest.Node) {
	t.Helper()
	sent := countBytes(n.Registry)
	ref := nodetest.Named("app:1")
	for seed := range int64(2) {
		n.Push("app:1", lazyImage(t, seed))
		before, mark := sent.Load(), n.Mark()
		id := n.MustPull(ref, lazily)
		nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Pulled")
		wantRemote(n, ref)
		if pulled := sent.Load() - before; pulled > layerSize/2 {
			t.Errorf("the pull took %d bytes of blobs, of %d layers with %d each", pulled, layers, layerSize)
		}

		n.Registry.Forget()
		mark = n.Mark()
		nodetest.Want(t, "image ID", n.MustPull(ref, lazily), id)
		nodetest.Want(t, "outcome while nothing changes", n.Decision(mark, ref).Outcome, "Unchanged")
		nodetest.Want(t, "requests while nothing changes", n.Requests(), "HEAD manifests")

		before = sent.Load()
		wantReadable(n, ref)
		if read := sent.Load() - before; read < layerSize {
			t.Errorf("a snapshot that is read takes %d bytes of blobs, with %d in each layer", read, layerSize)
		}
	}
}

// TestNoFallback holds that an image whose bytes are in a registry is no fallback while
// that fails: the error says so, and the pod's pull is tried again. Policies that ask no
// registry reuse it, as stock containerd does.
func TestNoFallback(t *testing.T) {
	t.Parallel()
	n := newNode(t, byCRI)
	ref := nodetest.Named("app:1")
	n.Push("app:1", lazyImage(t, 1))
	id := n.MustPull(ref, lazily)

	n.Registry.Refuse()
	mark := n.Mark()
	err := n.MustFail(ref, []string{"no fallback", "its snapshots are remote"}, lazily)
	nodetest.Want(t, "the kubelet's reason is RegistryUnavailable", nodetest.RegistryUnavailable(err), true)
	nodetest.Want(t, "reason", n.Decision(mark, ref).Reason, "unreachable")
	nodetest.Want(t, "stale-reason", n.Labels(ref)["stale-reason"], "")
	for _, policy := range []string{"IfNotPresent", "Never"} {
		nodetest.Want(t, "image ID under "+policy, n.MustPull(ref, lazily, node.Hint("policy", policy)), id)
	}

	n.Recover()
	mark = n.Mark()
	nodetest.Want(t, "image ID", n.MustPull(ref, lazily), id)
	nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Unchanged")
	wantReadable(n, ref)
}

// TestPlainFallback holds that an image that the stargz snapshotter has all bytes of, since
// its layers are no eStargz ones, is a fallback.
func TestPlainFallback(t *testing.T) {
	t.Parallel()
	n := newNode(t, byCRI)
	ref := nodetest.Named("app:1")
	n.Push("app:1", plainImage(1))
	id := n.MustPull(ref, lazily)
	n.Registry.Refuse()
	mark := n.Mark()
	nodetest.Want(t, "image ID", n.MustPull(ref, lazily), id)
	nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "UsedCached")
	wantReadable(n, ref)
}

// wantRemote holds that the content store has none of an image's layers, and that the
// snapshotter has its snapshot.
func wantRemote(n *nodetest.Node, ref string) {
	n.T.Helper()
	ctx := n.T.Context()
	img, err := n.Client.GetImage(ctx, ref)
	n.Must(err)
	unpacked, err := img.IsUnpacked(ctx, "stargz")
	n.Must(err)
	nodetest.Want(n.T, "there is a snapshot", unpacked, true)
	all, err := n.Client.ContentStore().ListStatuses(ctx)
	n.Must(err)
	nodetest.Want(n.T, "number of downloads that go on", len(all), 0)
	for _, d := range layerDigests(n, ref) {
		if _, err := n.Client.ContentStore().Info(ctx, d); err == nil {
			n.T.Errorf("the content store has the layer %s", d)
		}
	}
}

// wantReadable reads each layer's file in a new snapshot of an image.
func wantReadable(n *nodetest.Node, ref string) {
	n.T.Helper()
	ctx := n.T.Context()
	img, err := n.Client.GetImage(ctx, ref)
	n.Must(err)
	chain, err := img.RootFS(ctx)
	n.Must(err)
	ctx, done, err := n.Client.WithLease(ctx) // keeps the new snapshot from garbage collection
	n.Must(err)
	sn, key := n.Client.SnapshotService("stargz"), "test-"+rand.Text()
	mounts, err := sn.View(ctx, key, identity.ChainID(chain).String())
	n.Must(err)
	n.Must(mount.WithReadonlyTempMount(ctx, mounts, func(root string) error {
		for i := range layers {
			content, err := os.ReadFile(filepath.Join(root, fmt.Sprintf("layer-%d", i)))
			if err != nil {
				return err
			}
			nodetest.Want(n.T, "size of a layer's file", len(content), layerSize)
		}
		return nil
	}))
	n.Must(sn.Remove(ctx, key))
	n.Must(done(ctx))
}

// layerDigests returns those of an image's manifest.
func layerDigests(n *nodetest.Node, ref string) (all []digest.Digest) {
	n.T.Helper()
	img, err := n.Client.GetImage(n.T.Context(), ref)
	n.Must(err)
	manifest, err := images.Manifest(n.T.Context(), n.Client.ContentStore(), img.Target(), img.Platform())
	n.Must(err)
	for _, layer := range manifest.Layers {
		all = append(all, layer.Digest)
	}
	return all
}
