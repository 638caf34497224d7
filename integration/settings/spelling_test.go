// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestCredentialsOfASpelledRegistry holds that credentials of registry.configs count for a
// registry whose name they spell as the images do, as in stock containerd, though it is asked
// by its one name.
func TestCredentialsOfASpelledRegistry(t *testing.T) {
	t.Parallel()
	r := resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{"node": "word of the node"}))
	for what, spelled := range map[string]string{"its one name": r.Host(), "another": strings.Replace(r.Host(), ":", ":0", 1)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			configs := nodetest.CRICredentials(spelled, "node", "word of the node")
			n := nodetest.New(t, configs)
			n.PushTo(r, "app:1", nodetest.Image(1))
			n.MustPull(spelled + "/app:1")
			n.MustPull(spelled+"/app:1", node.Pod("a", "b"))
			stock := nodetest.New(t, nodetest.OnlySection("enabled = false"), configs)
			stock.MustPull(spelled + "/app:1")
		})
	}
}

// TestRefusalOfAnotherSpellingUnderTheNodesCredentials holds that a tenant who spells the name of a
// registry in another way, by which its balancer refuses everybody, ends no proof of everybody's, where
// the node has credentials for all pods.
func TestRefusalOfAnotherSpellingUnderTheNodesCredentials(t *testing.T) {
	t.Parallel()
	r := resolvertest.New(t)
	n := nodetest.New(t, nodetest.Section(`default_policy = "IfNotPresent"`), nodetest.CRICredentials(r.Host(), "node", "word of the node"))
	n.PushTo(r, "app:1", nodetest.Image(1))
	other := n.KnownByItsName(r, http.StatusForbidden, true)
	ref := r.Host() + "/app:1"
	n.MustPull(ref, node.Pod("victim", "a"))
	never := node.Hint("policy", "Never")
	n.MustPull(ref, node.Pod("victim", "b"), never)
	if _, err := n.Pull(other+"/app:1", node.Pod("tenant", "x")); err == nil {
		t.Error("the balancer refuses nobody")
	}
	n.MustPull(ref, node.Pod("victim", "b"), never)
}
