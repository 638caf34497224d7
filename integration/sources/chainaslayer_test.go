// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// namingLayers is an image whose config names these layers, with junk in the place of each.
func namingLayers(n *nodetest.Node, img v1.Image, author string, diffIDs ...v1.Hash) v1.Image {
	n.T.Helper()
	config, err := img.ConfigFile()
	n.Must(err)
	config = config.DeepCopy()
	config.Author, config.History, config.RootFS.DiffIDs = author, nil, diffIDs
	forged := empty.Image
	for i := range diffIDs {
		forged, err = mutate.AppendLayers(forged, static.NewLayer([]byte{byte('0' + i)}, types.DockerLayer))
		n.Must(err)
	}
	forged, err = mutate.ConfigFile(forged, config)
	n.Must(err)
	return forged
}

// TestAllowedSourcesOfAChainAsALayer has an image in the allowed registry whose config names, as its one layer, the chain of two
// that are unpacked on the node: the upper one came from the allowed registry, the lower one from elsewhere. What is
// written on a snapshot is where its own layer came from, and not those below it.
func TestAllowedSourcesOfAChainAsALayer(t *testing.T) {
	t.Parallel()
	for what, opts := range map[string][]nodetest.Option{"by default": nil, "discarded": {nodetest.CRIImages("discard_unpacked_layers = true")}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Start(t, opts...)
			good, bad := resolvertest.New(t), resolvertest.New(t)
			n.Serve("good.test", good)
			n.Serve("bad.test", bad)
			base := nodetest.Image(1)
			both, err := mutate.AppendLayers(base, nodetest.Layer(t, 3))
			n.Must(err)
			n.PushTo(bad, "base:1", base)
			n.PushTo(good, "both:1", both)
			n.MustPull("bad.test/base:1")
			n.MustPull("good.test/both:1")
			config, err := both.ConfigFile()
			n.Must(err)
			// This one has the sources of the layers written on their snapshots.
			n.PushTo(good, "first:1", namingLayers(n, both, "first", config.RootFS.DiffIDs...))
			n.MustPull("good.test/first:1")

			n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**\"]\nallowed_sources = [%q]\n", good.Host()))
			chain, err := v1.NewHash(nodetest.ChainOf(t, both))
			n.Must(err)
			n.PushTo(good, "chain:1", namingLayers(n, both, "chain", chain))
			for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
				if _, err := n.Pull("good.test/chain:1", node.Hint("policy", policy)); err == nil {
					t.Errorf("%s: an image is pulled that runs a layer from elsewhere, with labels %v", policy, n.Labels("good.test/chain:1"))
				}
			}
		})
	}
}
