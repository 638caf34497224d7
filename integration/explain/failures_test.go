// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// faults make a guarded registry fail in each class.
var faults = map[string]func(*resolvertest.Registry){
	"fine":         func(*resolvertest.Registry) {},
	"unreachable":  (*resolvertest.Registry).Refuse,
	"unavailable":  func(r *resolvertest.Registry) { r.Status(resolvertest.All, 500) },
	"rate_limited": func(r *resolvertest.Registry) { r.Status(resolvertest.Manifests, 429, "Retry-After", "3600") },
	"not_found":    func(r *resolvertest.Registry) { r.Status(resolvertest.Manifests, 404) },
	"forbidden":    func(r *resolvertest.Registry) { r.Status(resolvertest.Manifests, 403) },
	"invalid":      func(r *resolvertest.Registry) { r.HTML(resolvertest.Manifests) },
	"unauthorized": func(r *resolvertest.Registry) {
		r.Allow(func(string, string) bool { return false })
		r.RevokeTokens()
	},
}

// states are what the node may have of an image that alice may have. Each leaves the
// registry with the image that build makes.
var states = map[string]func(n *nodetest.Node, repo string){
	"absent":    func(n *nodetest.Node, repo string) { n.Push(repo, nodetest.Image(2)) },
	"unchanged": func(n *nodetest.Node, repo string) { pushPulled(n, repo, 2) },
	"changed": func(n *nodetest.Node, repo string) {
		pushPulled(n, repo, 1)
		n.Push(repo, nodetest.Image(2))
	},
	"imported": func(n *nodetest.Node, repo string) {
		n.Push(repo, nodetest.Image(2))
		n.Import(nodetest.Named(repo), nodetest.Image(1))
	},
}

// pushPulled pushes an image, and lets alice pull it.
func pushPulled(n *nodetest.Node, repo string, seed int64) digest.Digest {
	n.T.Helper()
	d := n.Push(repo, nodetest.Image(seed))
	if got := (question{ref: nodetest.Named(repo), who: alice, namespace: "default"}).pull(n); got.Outcome != "Pulled" {
		n.T.Fatalf("alice gets %+v", got)
	}
	return d
}

// TestFailures is every policy, image, caller and failure class. The policies that leave
// the most as it is come first.
func TestFailures(t *testing.T) {
	t.Parallel()
	for fault, fail := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			n := nodetest.NewWith(t, guarded(t))
			each := func(do func(state string, who caller, repo string)) {
				for state := range states {
					for _, who := range everybody {
						do(state, who, state+"/by"+who.user+":1")
					}
				}
			}
			each(func(state string, _ caller, repo string) { states[state](n, repo) })
			fail(n.Registry)
			each(func(_ string, who caller, repo string) {
				for _, policy := range []string{"Never", "IfNotPresent", "IfDigestChanged", "Always"} {
					compare(n, question{nodetest.Named(repo), who, "default", []string{"policy", policy}}, n.Registry)
				}
			})
		})
	}
}
