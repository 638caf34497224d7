// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// The outcomes of a pull with a hint.
const (
	checked = "Unchanged"
	fresh   = "Fresh"
	present = "Present"
	bad     = "Failed"
)

// hintTests is what a pod may say, where the policy in force without a hint is
// IfDigestChanged, max_age 1h, and the last check is young enough.
var hintTests = []struct {
	hint           string
	value          string
	allow, tighten string // what comes out; Ignore always gives fresh
	words          []string
}{
	{"policy", "Always", fresh, fresh, nil},
	{"policy", "IfDigestChanged", fresh, fresh, nil},
	{"policy", "IfNewerNotPresent", fresh, fresh, nil},
	{"policy", "IfNotPresent", present, bad, []string{"IfNotPresent", "IfDigestChanged"}},
	{"policy", "Never", present, bad, []string{"Never", "IfDigestChanged"}},
	{"policy", "always", bad, bad, []string{"always", "Always", "IfDigestChanged", "IfNotPresent", "Never"}},
	{"max-age", "0s", checked, checked, nil},
	{"max-age", "30m", fresh, fresh, nil},
	{"max-age", "2h", fresh, bad, []string{"2h", "1h"}},
	{"max-age", "soon", bad, bad, []string{"soon"}},
	{"max-age", "-1s", bad, bad, []string{"-1s"}},
	{"max-stale", "1h", fresh, fresh, nil},
	{"verify-timeout", "1m", fresh, bad, []string{"1m", "5s"}},
	{"verify-timeout", "10ms", bad, bad, []string{"10ms"}},
	{"verify-timeout", "3m", bad, bad, []string{"3m"}},
	{"resolve-from", "Origin", fresh, fresh, nil},
	{"resolve-from", "Moon", bad, bad, []string{"Moon", "Origin", "Mirrors"}},
	{"on-unreachable", "Fail", fresh, fresh, nil},
	{"on-not-found", "UseCached", fresh, fresh, nil},
	{"on-unauthorized", "UseCached", bad, bad, []string{"UseCached", "Fail"}},
	{"on-forbidden", "UseCached", bad, bad, []string{"UseCached", "Fail"}},
	{"on-invalid", "UseCached", bad, bad, []string{"UseCached", "Fail"}},
	{"on-invalid", "Fail", fresh, fresh, nil},
	{"access", "Any", bad, bad, []string{"max-age", "policy"}},
	{"polcy", "Always", bad, bad, []string{"policy"}},
}

// TestHints tries the table of what a pod may say, in the three modes.
func TestHints(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"Allow", "Tighten", "Ignore"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `max_age = "1h"`, `hints = "`+mode+`"`))
			n.Push("app:1", nodetest.Image(1))
			ref := nodetest.Named("app:1")
			n.MustPull(ref)
			for _, tt := range hintTests {
				t.Run(tt.hint+"="+tt.value, func(t *testing.T) {
					n := n.In(t)
					outcome := map[string]string{"Allow": tt.allow, "Tighten": tt.tighten, "Ignore": fresh}[mode]
					nodetest.Eventually(t, "the check is recorded", func() bool { return n.Labels(ref)["verified-at"] != "" })
					nodetest.Want(t, "outcome as explained", n.Explain(ref, node.Hint(tt.hint, tt.value)), outcome)
					mark := n.Mark()
					_, err := n.Pull(ref, node.Hint(tt.hint, tt.value))
					nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, outcome)
					nodetest.Want(t, "pull fails", err != nil, outcome == bad)
					if err != nil {
						nodetest.WantWords(t, err, append([]string{"pullwarden.io/" + tt.hint, tt.value}, tt.words...)...)
					}
				})
			}
		})
	}
}

// TestOtherAnnotations holds that only annotations under the prefix count.
func TestOtherAnnotations(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(nodetest.Named("app:1"), node.Annotations("policy", "Sometimes", "example.com/pullwarden.io", "x", "pullwarden.io", "y"))
}

// TestPrefixInAnotherCase holds that a slip in the prefix does not leave a pod
// with another policy than it asks for.
func TestPrefixInAnotherCase(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	n.Push("app:1", nodetest.Image(1))
	n.MustFail(nodetest.Named("app:1"), []string{"Pullwarden.io/policy", "unknown key"}, node.Annotations("Pullwarden.io/policy", "Always"))
	nodetest.Want(t, "requests", n.Requests(), "")
}

// TestNeverCannotBeLeft holds that a hint under Tighten leaves Never alone.
func TestNeverCannotBeLeft(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(`default_policy = "Never"`, `hints = "Tighten"`))
	n.Push("app:1", nodetest.Image(1))
	for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent"} {
		n.MustFail(nodetest.Named("app:1"), []string{"pullwarden.io/policy", policy, "Never"}, node.Hint("policy", policy))
	}
	nodetest.Want(t, "requests", n.Requests(), "")
}
