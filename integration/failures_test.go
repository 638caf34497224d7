// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// troubles makes a registry with token authentication, which lets everybody
// pull, fail in each class.
var troubles = map[failure.Class]func(*resolvertest.Registry){
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

// openToAll is a registry with token authentication in which everybody may
// pull.
func openToAll(t testing.TB) *resolvertest.Registry {
	r := resolvertest.New(t, resolvertest.WithTokenAuth(nil))
	r.Allow(func(string, string) bool { return true })
	return r
}

// TestPoliciesAndFailures is the contract's table: every policy, every failure
// class, with and without an image on the node.
func TestPoliciesAndFailures(t *testing.T) {
	t.Parallel()
	// What happens to a cached image when the registry fails.
	const (
		fails  = "Failed"
		cached = "UsedCached"
		reused = "Present"
	)
	expect := map[string]map[failure.Class]string{
		"Always": {
			failure.None: "Unchanged", failure.Unreachable: fails, failure.Unavailable: fails, failure.RateLimited: fails,
			failure.NotFound: fails, failure.Unauthorized: fails, failure.Forbidden: fails, failure.Invalid: fails,
		},
		"IfDigestChanged": {
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
	expect["IfNewerNotPresent"] = expect["IfDigestChanged"]

	for class, makeTrouble := range troubles {
		t.Run("registry "+orFine(class), func(t *testing.T) {
			t.Parallel()
			n := newNodeWith(t, openToAll(t), section(`verify_timeout = "1s"`))
			for _, policy := range []string{"Always", "IfDigestChanged", "IfNewerNotPresent", "IfNotPresent", "Never"} {
				n.push(policyRepo(policy, true)+":1", image(1))
				n.push(policyRepo(policy, false)+":1", image(2))
				n.mustPull(named(policyRepo(policy, true) + ":1"))
			}
			makeTrouble(n.r)
			for policy, outcomes := range expect {
				t.Run(policy+" cached", func(t *testing.T) {
					n.failureCase(t, policy, class, true, outcomes[class])
				})
				t.Run(policy+" absent", func(t *testing.T) {
					outcome := fails
					if class == failure.None && policy != "Never" {
						outcome = "Pulled"
					}
					n.failureCase(t, policy, class, false, outcome)
				})
			}
		})
	}
}

func (n *node) failureCase(t *testing.T, policy string, class failure.Class, cached bool, outcome string) {
	repo := policyRepo(policy, cached)
	ref := named(repo + ":1")
	before := n.target(ref)
	n.r.Forget()
	mark := n.mark()
	id, err := n.pull(ref, hint("policy", policy))

	got := n.decision(mark, ref)
	want(t, "outcome", got.outcome, outcome)
	want(t, "pull fails", err != nil, outcome == "Failed")
	asks := policy != "Never" && (policy != "IfNotPresent" || !cached)
	if !asks && n.r.Count(nil) > 0 {
		t.Errorf("the registry was asked: %s", n.requests())
	}
	switch outcome {
	case "Failed":
		want(t, "target", n.target(ref), before)
		if asks {
			wantWords(t, err, n.r.Host(), string(class))
			want(t, "class in the log", got.class, string(class))
		}
		if want := asks && class.RegistryUnavailable(); registryUnavailable(err) != want {
			t.Errorf("RegistryUnavailable is %v, want %v: %v", !want, want, err)
		}
	case "UsedCached":
		want(t, "target", n.target(ref), before)
		want(t, "class in the log", got.class, string(class))
		want(t, "level", got.level, "warning")
		eventually(t, "the record is marked stale", func() bool { return n.labels(ref)["stale-reason"] == string(class) })
		want(t, "image ID", id, n.imageStatus(ref).GetImage().GetId())
	default:
		want(t, "image ID", id, n.imageStatus(ref).GetImage().GetId())
		want(t, "stale-reason", n.labels(ref)["stale-reason"], "")
		isRunnable(n.daemon, ref)
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
