// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestVolumeBesideAConfigWithoutLayers holds that pods have an image as a volume though another tenant's registry
// has its very config, in a manifest that names no layers, or something else than layers: that is no image.
func TestVolumeBesideAConfigWithoutLayers(t *testing.T) {
	t.Parallel()
	for what, mediaType := range map[string]string{"no layers": "", "no layer type": "application/x-none"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Containers(t))
			img := nodetest.Image(1)
			n.Push("public:1", img)
			id := n.MustPull(nodetest.Named("public:1"))
			evil, m := forge(n, img), manifestOf(n, img)
			all := m.Layers
			m.Layers = []ocispec.Descriptor{}
			for _, layer := range all {
				if layer.MediaType = mediaType; mediaType != "" {
					m.Layers = append(m.Layers, layer)
				}
			}
			evil.top = evil.add(t, m)
			n.Serve("evil.test", evil.registry(t))
			mark := n.Mark()
			_, err := n.Pull("evil.test/app:1")
			nodetest.Want(t, "the class of "+what, n.Decision(mark, "evil.test/app:1").Class, "invalid")
			if err == nil {
				t.Error("it is pulled")
			}
			pod := n.RunPodOf("", resolvertest.New(t))
			n.Push("app:1", nodetest.Busybox(t, 1, "sleep", "86400"))
			app := n.MustPull(nodetest.Named("app:1"), pod.Pulls())
			volume := nodetest.Volume{ImageID: id, UserSpecified: nodetest.Named("public:1")}
			if _, err := pod.Create("app", app, nodetest.Named("app:1"), nil, volume); err != nil {
				t.Errorf("a container with a volume of the public image: %v", err)
			}
		})
	}
}
