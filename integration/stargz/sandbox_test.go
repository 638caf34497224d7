// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package stargz

import (
	"testing"

	"github.com/containerd/errdefs"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestPodThatMakesASnapshotOfAnothersImage holds that a pod whose annotations have the labels of a remote snapshot commits no layer
// of its own as one of another's image: CRI hands annotations of a pod on to the snapshot of its sandbox.
func TestPodThatMakesASnapshotOfAnothersImage(t *testing.T) {
	t.Parallel()
	n := newNode(t, nodetest.Containers(t))
	eves := resolvertest.New(t)
	n.Serve("eve.test", eves)
	img := lazyImage(t, 9)
	n.PushTo(eves, "eve/app:1", img)
	m, err := img.Manifest()
	n.Must(err)
	layer := m.Layers[0]
	victims := nodetest.ChainOf(t, nodetest.Image(5))
	n.Must(n.RunPodOf("stargz", resolvertest.New(t)).RunBeside("eve", map[string]string{
		"containerd.io/snapshot.ref":                     victims,
		"containerd.io/snapshot/remote/stargz.reference": "eve.test/eve/app:1",
		"containerd.io/snapshot/remote/stargz.digest":    layer.Digest.String(),
		"containerd.io/snapshot/stargz/toc.digest":       layer.Annotations["containerd.io/snapshot/stargz/toc.digest"],
	}))
	if info, err := n.Client.SnapshotService("stargz").Stat(t.Context(), victims); !errdefs.IsNotFound(err) {
		t.Errorf("there is a snapshot of an image that nobody has pulled: %v, %v", info, err)
	}
}
