// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"testing"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestFallbackCanRun holds that an image of which neither content nor snapshot
// is there is no fallback.
func TestFallbackCanRun(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)

	// The layers and the snapshots go, the manifest stays, as after a mishap.
	ctx := t.Context()
	img, err := n.Client.GetImage(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	n.Must(breakImage(n, img))
	n.Registry.Refuse()
	n.MustFail(ref, []string{n.Registry.Host(), "unreachable"})

	n.Restore()
	mark := n.Mark()
	n.MustPull(ref)
	got := n.Decision(mark, ref)
	nodetest.Want(t, "outcome", got.Outcome, "Pulled")
	nodetest.Want(t, "reason", got.Reason, "incomplete")
	n.WantRunnable(ref)
}

// breakImage removes an image's layers and snapshots behind containerd's back.
func breakImage(n *nodetest.Node, img containerd.Image) error {
	ctx := n.T.Context()
	chain, err := img.RootFS(ctx)
	if err != nil {
		return err
	}
	layers, err := layersOf(n, img)
	if err != nil {
		return err
	}
	sn := n.Client.SnapshotService("overlayfs")
	for i := len(chain); i > 0; i-- {
		if err := sn.Remove(ctx, identity.ChainID(chain[:i]).String()); err != nil && !errdefs.IsNotFound(err) { // nothing refers to it any more
			return err
		}
	}
	for _, layer := range layers {
		if err := n.Client.ContentStore().Delete(ctx, layer); err != nil && !errdefs.IsNotFound(err) { // it may be discarded already
			return err
		}
	}
	n.CollectGarbage()
	return nil
}

// layersOf returns the digests of an image's layers.
func layersOf(n *nodetest.Node, img containerd.Image) ([]digest.Digest, error) {
	manifest, err := images.Manifest(n.T.Context(), n.Client.ContentStore(), img.Target(), platforms.Default())
	if err != nil {
		return nil, err
	}
	var layers []digest.Digest
	for _, l := range manifest.Layers {
		layers = append(layers, l.Digest)
	}
	return layers, nil
}
