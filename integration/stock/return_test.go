// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestReturn holds what becomes of labels while stock containerd is in place: it leaves
// those of images that it does not pull, and takes those of a tag that it pulls again;
// the proofs stay with repository@digest.
func TestReturn(t *testing.T) {
	t.Parallel()
	r := resolvertest.New(t, resolvertest.WithTokenAuth(map[string]string{"alice": "secret of alice", "bob": "secret of bob"}))
	alice := node.Credentials("alice", "secret of alice")
	on := nodetest.OnlySection("enabled = true", `default_policy = "IfNotPresent"`)
	n := nodetest.NewWith(t, r, on)
	again, left := nodetest.Named("again:1"), nodetest.Named("left:1")
	dgst := n.Push("again:1", nodetest.Image(1))
	n.Push("left:1", nodetest.Image(2))
	n.MustPull(again, alice)
	n.MustPull(left, alice)
	before := n.Labels(left)

	n.Restart(nodetest.OnlySection())
	n.MustPull(again, alice)
	n.Restart(on)
	nodetest.Want(t, "labels of a tag that was pulled again", len(n.Labels(again)), 0)
	if !maps.Equal(n.Labels(left), before) || before["verified-digest"] == "" {
		t.Errorf("labels of an image that was not pulled are %v, they were %v", n.Labels(left), before)
	}
	digested := slices.Sorted(maps.Keys(n.Labels("registry.test/again@" + dgst.String())))
	if !strings.Contains(strings.Join(digested, " "), "access.") {
		t.Errorf("repository@digest has no proof: %v", digested)
	}
	n.Registry.Refuse()
	for _, ref := range []string{again, left} {
		n.MustPull(ref, alice)
		n.MustFail(ref, nil, node.Credentials("bob", "secret of bob"))
	}
}
