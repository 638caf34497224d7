// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// faults makes a registry with token authentication, which lets everybody
// pull, fail in each class.
var faults = map[failure.Class]func(*resolvertest.Registry){
	failure.None:        func(*resolvertest.Registry) {},
	failure.Unreachable: (*resolvertest.Registry).Refuse,
	failure.Unavailable: func(r *resolvertest.Registry) { r.Status(resolvertest.Manifests, 503) },
	failure.RateLimited: func(r *resolvertest.Registry) { r.Status(resolvertest.Manifests, 429, "Retry-After", "3600") },
	failure.NotFound:    func(r *resolvertest.Registry) { r.Status(resolvertest.Manifests, 404) },
	failure.Forbidden:   func(r *resolvertest.Registry) { r.Status(resolvertest.Manifests, 403) },
	failure.Invalid:     func(r *resolvertest.Registry) { r.HTML(resolvertest.Manifests) },
	failure.Unauthorized: func(r *resolvertest.Registry) {
		r.Allow(func(string, string) bool { return false })
		r.RevokeTokens()
	},
}

// The outcomes of a pull of a cached image when the registry fails.
const (
	fails  = "Failed"
	cached = "UsedCached"
	reused = "Present"
)

// expect is what comes out of a pull of a cached image, by policy and by the
// registry's failure.
var expect = map[string]map[failure.Class]string{
	"Always": {
		failure.None: "Unchanged", failure.Unreachable: fails, failure.Unavailable: fails, failure.RateLimited: fails,
		failure.NotFound: fails, failure.Unauthorized: fails, failure.Forbidden: fails, failure.Invalid: fails,
	},
	"IfDigestChanged": {
		failure.None: "Unchanged", failure.Unreachable: cached, failure.Unavailable: cached, failure.RateLimited: cached,
		failure.NotFound: cached, failure.Unauthorized: fails, failure.Forbidden: fails, failure.Invalid: fails,
	},
	"IfNewerNotPresent": {
		failure.None: "Unchanged", failure.Unreachable: cached, failure.Unavailable: cached, failure.RateLimited: cached,
		failure.NotFound: cached, failure.Unauthorized: fails, failure.Forbidden: fails, failure.Invalid: fails,
	},
	"IfNotPresent": {
		failure.None: reused, failure.Unreachable: reused, failure.Unavailable: reused, failure.RateLimited: reused,
		failure.NotFound: reused, failure.Unauthorized: reused, failure.Forbidden: reused, failure.Invalid: reused,
	},
	"Never": {
		failure.None: reused, failure.Unreachable: reused, failure.Unavailable: reused, failure.RateLimited: reused,
		failure.NotFound: reused, failure.Unauthorized: reused, failure.Forbidden: reused, failure.Invalid: reused,
	},
}

// TestPoliciesAndFailures is the contract's table: every policy, every failure
// class, with and without an image on the node.
func TestPoliciesAndFailures(t *testing.T) {
	t.Parallel()
	for class, fail := range faults {
		t.Run("registry "+orFine(class), func(t *testing.T) {
			t.Parallel()
			n := nodetest.NewWith(t, nodetest.OpenToAll(t))
			for _, policy := range []string{"Always", "IfDigestChanged", "IfNewerNotPresent", "IfNotPresent", "Never"} {
				n.Push(policyRepo(policy, true)+":1", nodetest.Image(1))
				n.Push(policyRepo(policy, false)+":1", nodetest.Image(2))
				n.MustPull(nodetest.Named(policyRepo(policy, true) + ":1"))
			}
			fail(n.Registry)
			for policy, outcomes := range expect {
				t.Run(policy+" cached", func(t *testing.T) {
					tryFailure(n.In(t), policy, class, true, outcomes[class])
				})
				t.Run(policy+" absent", func(t *testing.T) {
					outcome := fails
					if class == failure.None && policy != "Never" {
						outcome = "Pulled"
					}
					tryFailure(n.In(t), policy, class, false, outcome)
				})
			}
		})
	}
}

// tryFailure pulls while the registry fails with that class.
func tryFailure(n *nodetest.Node, policy string, class failure.Class, cached bool, outcome string) {
	t := n.T
	repo := policyRepo(policy, cached)
	ref := nodetest.Named(repo + ":1")
	before := n.Target(ref)
	nodetest.Want(t, "outcome as explained", n.Explain(ref, node.Hint("policy", policy)), outcome)
	n.Registry.Forget()
	mark := n.Mark()
	id, err := n.Pull(ref, node.Hint("policy", policy))

	got := n.Decision(mark, ref)
	nodetest.Want(t, "outcome", got.Outcome, outcome)
	nodetest.Want(t, "pull fails", err != nil, outcome == "Failed")
	checks := policy != "Never" && (policy != "IfNotPresent" || !cached)
	if !checks && n.Registry.Count(resolvertest.NoProbe) > 0 {
		t.Errorf("the registry was asked: %s", n.Requests())
	}
	switch outcome {
	case "Failed":
		nodetest.Want(t, "target", n.Target(ref), before)
		if checks {
			nodetest.WantWords(t, err, n.Registry.Host(), string(class))
			nodetest.Want(t, "class in the log", got.Class, string(class))
		}
		if want := checks && class.RegistryUnavailable(); nodetest.RegistryUnavailable(err) != want {
			t.Errorf("RegistryUnavailable is %v, want %v: %v", !want, want, err)
		}
	case "UsedCached":
		nodetest.Want(t, "target", n.Target(ref), before)
		nodetest.Want(t, "class in the log", got.Class, string(class))
		nodetest.Want(t, "level", got.Level, "warning")
		nodetest.Eventually(t, "the record is marked stale", func() bool { return n.Labels(ref)["stale-reason"] == string(class) })
		nodetest.Want(t, "image ID", id, n.Status(ref).GetImage().GetId())
	default:
		nodetest.Want(t, "image ID", id, n.Status(ref).GetImage().GetId())
		nodetest.Want(t, "stale-reason", n.Labels(ref)["stale-reason"], "")
		n.WantRunnable(ref)
	}
}

func policyRepo(policy string, cached bool) string {
	return map[string]string{
		"Always": "always", "IfDigestChanged": "changed", "IfNewerNotPresent": "newer", "IfNotPresent": "absent", "Never": "never",
	}[policy] + fmt.Sprintf("/cached-%t", cached)
}

func orFine(class failure.Class) string {
	if class == failure.None {
		return "fine"
	}
	return string(class)
}
