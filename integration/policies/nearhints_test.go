// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestNearHints gives pods annotations that are nearly hints: they change nothing, and
// the line of the decision is a warning that names them.
func TestNearHints(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	for key, want := range map[string]string{
		"pullwarden/policy":    "pullwarden/policy (did you mean pullwarden.io/policy?)",
		"pullwarden.io.policy": "pullwarden.io.policy (did you mean pullwarden.io/policy?)",
		"pullwarden.io_policy": "pullwarden.io_policy (did you mean pullwarden.io/policy?)",
		"example.com/policy":   "",
	} {
		mark := n.Mark()
		n.MustPull(ref, node.Annotations(key, "Never"))
		d := n.Decision(mark, ref)
		nodetest.Want(t, "annotations that are nearly hints", d.NotHints, want)
		nodetest.Want(t, "level", d.Level, map[bool]string{true: "info", false: "warning"}[want == ""])
		nodetest.Want(t, "policy", d.Policy, "Always")
	}
}
