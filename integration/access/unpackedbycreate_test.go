// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// withNowhere is a node with a public image, and another one of a tenant's with the same config and layers
// that nobody has: to CRI it is the same image, by the tenant's record.
func withNowhere(t *testing.T) (n *nodetest.Node, public, id string) {
	t.Helper()
	n = nodetest.New(t, nodetest.Containers(t), nodetest.NativeRuntime())
	img := nodetest.Image(1)
	n.Push("public:1", img)
	n.MustPull(nodetest.Named("public:1"))
	evil, m := forge(n, img), manifestOf(n, img)
	m.Layers = slices.Clone(m.Layers)
	for i := range m.Layers {
		m.Layers[i].Digest = digest.FromString("nowhere" + m.Layers[i].Digest.String())
	}
	evil.top = evil.add(t, m)
	n.Serve("a.evil.test", evil.registry(t))
	n.MustPull("a.evil.test/app:1")
	return n, nodetest.Named("public:1"), n.Status(nodetest.Named("public:1")).GetImage().GetId()
}

// A container whose pod has not pulled for its runtime handler is made by the name it was asked for.
func TestUnpackedByCreateWithAnotherTenantsConfig(t *testing.T) {
	t.Parallel()
	n, public, id := withNowhere(t)
	pod := n.RunPodOf("native", resolvertest.New(t))
	pod.CreateUnpacking("app", id, public)
}

// So is the image of a volume.
func TestVolumeUnpackedByCreateWithAnotherTenantsConfig(t *testing.T) {
	t.Parallel()
	n, public, id := withNowhere(t)
	if n.Options.Discards() {
		return // there are no layers to unpack again
	}
	pod := n.RunPodOf("native", resolvertest.New(t))
	n.Push("app:1", nodetest.Busybox(t, 1, "sleep", "86400"))
	app := n.MustPull(nodetest.Named("app:1"), pod.Pulls())
	if _, err := pod.Create("app", app, nodetest.Named("app:1"), nil, nodetest.Volume{ImageID: id, UserSpecified: public}); err != nil {
		t.Errorf("a container with a volume: %v", err)
	}
}
