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

// To CRI, an image with the config of another one and layers that nobody has is the same image. A
// container whose pod has not pulled for its runtime handler is made by the name it was asked for.
func TestUnpackedByCreateWithAnotherTenantsConfig(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Containers(t), nodetest.NativeRuntime())
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
	id := n.Status(nodetest.Named("public:1")).GetImage().GetId()
	pod := n.RunPodOf("native", resolvertest.New(t))
	pod.CreateUnpacking("app", id, nodetest.Named("public:1"))
}
