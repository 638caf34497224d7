// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"os"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// truncate cuts files of content, as a crash or a full disk does.
func truncate(n *nodetest.Node, size int64, contents ...digest.Digest) {
	n.T.Helper()
	for _, d := range contents {
		n.Must(os.Truncate(fileOf(n, d), size))
	}
}

// TestTruncatedFiles cuts files of an image that is there. Under each policy that asks a
// registry the next pull brings them back, as it does with files that are lost.
func TestTruncatedFiles(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	img := nodetest.Image(1)
	manifest := n.Push("app:1", img)
	config, err := img.ConfigName()
	n.Must(err)
	n.MustPull(nodetest.Named("app:1"))
	for what, files := range map[string][]digest.Digest{
		"manifest": {manifest},
		"config":   {digest.Digest(config.String())},
		"both":     {manifest, digest.Digest(config.String())},
	} {
		for policy, size := range map[string]int64{"Always": 0, "IfDigestChanged": 1, "IfNotPresent": 100} {
			t.Run(what+"/"+policy, func(t *testing.T) {
				n := n.In(t)
				truncate(n, size, files...)
				n.Registry.Refuse()
				wantFetchedAgain(n, nodetest.Named("app:1"), policy, "bytes")
			})
		}
	}
}

// TestTruncatedLayers cuts the files of layers. An image whose snapshots are there runs
// without; a runtime that has none of them gets the layers again.
func TestTruncatedLayers(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.NativeRuntime())
	ref, layers := damageLayers(n, func(d digest.Digest) { truncate(n, 100, d) })
	mark := n.Mark()
	n.MustPull(ref)
	nodetest.Want(t, "outcome with snapshots", n.Decision(mark, ref).Outcome, "Unchanged")
	nodetest.Want(t, "blobs that were fetched", n.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)), 0)
	n.MustPull(ref, node.RuntimeHandler("native"))
	nodetest.Want(t, "layers that were fetched", n.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)), len(layers))
	n.WantRunnableBy("native", ref)
	n.WantRunnable(ref)
}
