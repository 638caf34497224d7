// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestUnreachableURLOfAChange moves a tag to an image with a layer that is said to be on a host that is
// gone: on.unreachable has the cached image used.
func TestUnreachableURLOfAChange(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)

	img := nodetest.WithLayerAt(t, nodetest.Image(1), nodetest.Layer(t, 2), gone.URL+"/layer")
	n.Push("app:1", img)
	mark := n.Mark()
	n.MustPull(ref)
	d := n.Told(mark, ref)
	nodetest.Want(t, "outcome", d.Outcome+" "+d.Reason, "UsedCached unreachable")
}
