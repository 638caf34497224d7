// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestStalledComparison has a registry that hangs while it should deliver the
// bytes of an image that is there. It is given up when a pull would be, as one
// that cannot be reached.
func TestStalledComparison(t *testing.T) {
	t.Parallel()
	a := allowing{newMirrored(t, nodetest.Section(nodetest.IfDigestChanged))}
	a.both("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	a.MustPull(ref)
	a.allow(a.Registry.Host())
	patient := a.Options.Images
	a.Restart(nodetest.CRIImages(`image_pull_progress_timeout = "1s"`))
	undo := a.Registry.Hang(resolvertest.Blobs)
	err := a.MustFail(ref, []string{"unreachable", "no byte came for 1s"})
	nodetest.Want(t, "the kubelet's reason is RegistryUnavailable", nodetest.RegistryUnavailable(err), true)
	undo()
	a.Restart(func(o *node.Options) { o.Images = patient })
	a.MustPull(ref)
	nodetest.Eventually(t, "the source is the origin", func() bool { return a.source() == a.Registry.Host()+"/app:1" })
}
