// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// legacy gives the config of an image the media type that some registries once
// wrote into manifests, and which makes containerd store another manifest.
func legacy(img v1.Image) v1.Image {
	return mutate.ConfigMediaType(mutate.MediaType(img, types.DockerManifestSchema2), "application/octet-stream")
}

// TestLegacyConfig holds that an image with a config of the legacy media type is
// as private as its pull, is stored under the registry's digest, so that it
// counts as unchanged, and runs.
func TestLegacyConfig(t *testing.T) {
	t.Parallel()
	settings := append(node.Settings(), node.Setting{Name: "none"})
	for _, name := range []string{"none", "local", "discard"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var with node.Setting
			for _, s := range settings {
				if s.Name == name {
					with = s
				}
			}
			n := nodetest.Start(t, nodetest.Containers(t), nodetest.Setting(with))
			g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
			g.serve(n)
			s := g.scene(t, n, "private/app")
			ref := s.ref(":1")
			pushed := s.push("1", legacy(nodetest.Busybox(t, 1, "sleep", "86400")))
			s.wantPull(alice, "IfNotPresent", ref, "Pulled")
			nodetest.Want(t, "what is stored", s.ref("@"+s.Target(ref).String()), pushed)
			for _, byName := range []string{ref, pushed} {
				for _, who := range []caller{nobody, wrong, eve, bob} {
					s.wantPull(who, "Never", byName, "Failed")
				}
				for _, who := range []caller{nobody, wrong, eve} {
					s.wantPull(who, "IfNotPresent", byName, "Failed")
				}
				s.wantPull(alice, "Never", byName, "Present")
			}
			s.wantPull(alice, "IfDigestChanged", ref, "Unchanged")
			id := s.MustPull(ref, alice.secret())
			container := n.RunPod(resolvertest.New(t)).Run("app", id, ref, nil)
			nodetest.Want(t, "state", n.ContainerStatus(container).GetState(), runtimeapi.ContainerState_CONTAINER_RUNNING)
		})
	}
}

// TestLegacyConfigBesideABlob holds that such an image may have another blob of that media type,
// which is no layer.
func TestLegacyConfigBesideABlob(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	img, err := mutate.Append(nodetest.Image(1), mutate.Addendum{Layer: static.NewLayer([]byte("a signature"), "application/octet-stream")})
	n.Must(err)
	config, err := nodetest.Image(1).ConfigFile() // without the blob
	n.Must(err)
	img, err = mutate.ConfigFile(img, config)
	n.Must(err)
	pushed, ref := n.Push("app:1", legacy(img)), nodetest.Named("app:1")
	n.MustPull(ref)
	nodetest.Want(t, "what is stored", n.Target(ref), pushed)
	n.WantRunnable(ref)
}
