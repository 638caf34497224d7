// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

var (
	alice = node.Credentials("alice", "secret of alice")
	bob   = node.Credentials("bob", "secret of bob")
)

// guarded is a registry that alice and bob may pull from.
func guarded(t *testing.T) *resolvertest.Registry {
	return resolvertest.New(t, resolvertest.WithTokenAuth(map[string]string{"alice": "secret of alice", "bob": "secret of bob"}))
}

// mode writes the one rule of a node.
func mode(n *nodetest.Node, mode, policy string) {
	n.T.Helper()
	n.WriteRules("a.toml", fmt.Sprintf("[[rule]]\nimages = ['**']\nmode = %q\npolicy = %q\n", mode, policy))
}

// TestProofs holds that proofs outlast pulls under Observe, that these give and end
// proofs as others do, and that nobody has one who gave none.
func TestProofs(t *testing.T) {
	t.Parallel()
	for name, images := range map[string][]string{"transfer": nil, "local": {"use_local_image_pull = true"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.NewWith(t, guarded(t), nodetest.CRIImages(images...))
			ref := nodetest.Named("app:1")
			n.Push("app:1", nodetest.Image(1))
			mode(n, "Enforce", "IfDigestChanged")
			mustEnforce(n, ref, "Pulled", "absent", alice)
			mode(n, "Observe", "IfDigestChanged")
			mustObserve(n, nil, ref, "Unchanged", "same_digest", bob)

			mode(n, "Enforce", "Never")
			mustEnforce(n, ref, "Present", "policy", alice)
			mustEnforce(n, ref, "Present", "policy", bob)
			mustEnforce(n, ref, "Failed", "unproved")
			mustEnforce(n, ref, "Failed", "unproved", node.Credentials("alice", "wrong"))

			mode(n, "Observe", "IfDigestChanged")
			n.Registry.Allow(func(user, _ string) bool { return user != "bob" })
			n.Registry.RevokeTokens()
			got, _ := mustFailObserved(n, ref, bob)
			if got.Outcome != "Failed" || got.StockPull != "failed" || got.Class != "forbidden" && got.Class != "unauthorized" {
				t.Errorf("told %+v", got)
			}
			n.Registry.Refuse()
			mode(n, "Enforce", "Never")
			mustEnforce(n, ref, "Failed", "unproved", bob)
			mustEnforce(n, ref, "Present", "policy", alice)
		})
	}
}

// TestNeverStale holds that a registry that fails leaves no stale mark, since nothing
// was decided, and takes nothing that was verified away.
func TestNeverStale(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	mode(n, "Observe", "IfDigestChanged")
	mustObserve(n, removed(n, ref), ref, "Pulled", "absent")
	var before map[string]string
	nodetest.Eventually(t, "the check is recorded", func() bool {
		before = n.Labels(ref)
		return before["verified-at"] != ""
	})
	for _, key := range []string{"verified-digest", "verified-by", "access.anonymous"} {
		if before[key] == "" {
			t.Errorf("the label %s is missing", key)
		}
	}
	n.Registry.Refuse()
	got, err := mustFailObserved(n, ref)
	nodetest.Want(t, "RegistryUnavailable", nodetest.RegistryUnavailable(err), false)
	if got.Outcome != "UsedCached" || got.StockPull != "failed" || got.Message != "pullwarden: the registry failed, would have used the cached image" {
		t.Errorf("told %+v", got)
	}
	n.Restart() // which writes what is pending
	if after := n.Labels(ref); !maps.Equal(after, before) || after["stale-since"] != "" {
		t.Errorf("labels are %v, and were %v", after, before)
	}
}

// TestMetrics holds that what took no effect is counted apart.
func TestMetrics(t *testing.T) {
	t.Parallel()
	address := nodetest.FreeAddress(t)
	n := nodetest.New(t, nodetest.MetricsAt(address))
	n.Push("app:1", nodetest.Image(1))
	mode(n, "Observe", "Never")
	mustObserve(n, removed(n, nodetest.Named("app:1")), nodetest.Named("app:1"), "Failed", "absent")
	mode(n, "Enforce", "Always")
	mustEnforce(n, nodetest.Named("app:1"), "Unchanged", "same_digest")
	all := n.Metrics(address)
	for line, want := range map[string]bool{
		`pullwarden_observed_decisions_total{outcome="Failed",policy="Never",reason="absent"} 1`:          true,
		`pullwarden_decisions_total{outcome="Unchanged",policy="Always",reason="same_digest"} 1`:          true,
		`pullwarden_decisions_total{outcome="Failed"`:                                                     false,
		`pullwarden_observed_decisions_total{outcome="Unchanged",policy="Always",reason="same_digest"} 1`: false,
	} {
		if strings.Contains(all, line) != want {
			t.Errorf("%s is among the metrics: %t", line, !want)
		}
	}
}
