// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestDeadConnectionsOfLayers holds that connections which a balancer has forgotten make no registry unreachable for a
// pull: large layers have connections of their own, over which no check goes.
func TestDeadConnectionsOfLayers(t *testing.T) {
	n := nodetest.NewWith(t, resolvertest.New(t, resolvertest.WithTLS()), patient)
	between := newBalancer(t, n.Registry.Host())
	n.WriteHosts("registry.test", strings.ReplaceAll(n.Server(n.Registry), "//"+n.Registry.Host(), "//"+between.address))
	n.Push("app:1", resolvertest.Image(1, 3, 9<<20))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	between.forget()
	changed := n.Push("app:1", resolvertest.Image(2, 3, 9<<20))
	mark := n.Mark()
	n.MustPull(ref)
	nodetest.Want(t, "outcome after a failover", n.Decision(mark, ref).Outcome, "Pulled")
	nodetest.Want(t, "image after a change", n.Target(ref), changed)

	n.Push("other:1", resolvertest.Image(3, 3, 9<<20))
	between.forget()
	n.MustPull(nodetest.Named("other:1")) // it is absent
}
