// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestURLsOfHostsThatAreNoText has a layer name a host whose bytes are no UTF-8, of
// which gRPC carries nothing: with that in a label, nobody could list the images of the
// node, nor could CRI start again. Nor does a host with commas pass for several.
func TestURLsOfHostsThatAreNoText(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	f := newForeign(t, 1, "http://x%80.example.com/layer", "http://a.test,registry.test/layer", "http://+7/layer")
	n.Push("app:1", f)
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	sources := n.Registry.Host() + "," + f.host + ",x%80.example.com:80,a.test%2Cregistry.test:80,%2B7:80"
	nodetest.Want(t, "content-sources", n.Labels(ref)["content-sources"], sources)
	nodetest.Want(t, "images", len(n.List()), 1)

	n.Restart()
	nodetest.Want(t, "images after a restart", len(n.List()), 1)
	nodetest.Want(t, "content-sources that CRI shows", n.Annotations(ref)["content-sources"], sources)
}
