// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// ruleFiles are those of TestRules.
var ruleFiles = map[string]string{
	"10-first.toml": `
[[rule]]
images = ["registry.test/team-a/**"]
namespaces = ["team-a", "team-a-*"]
policy = "Always"
hints = "Ignore"

[[rule]]
images = ["registry.test/team-a/**"]
policy = "IfDigestChanged"
hints = "Tighten"

[[rule]]
images = ["registry.test/tags/app:v*"]
policy = "Always"
`,
	"20-second.toml": `
[[rule]]
images = ["registry.test/team-a/**", "registry.test/team-b/*"]
policy = "Never"
`,
	"30-ignored.txt": "this is no TOML",
}

// ruleTests is the table of which rule decides, and of the precedence of
// default, section, rule and hint.
var ruleTests = []struct {
	repo, tag, namespace string
	hint                 string
	policy               string
	by                   string // where the policy came from, as the log says
	fails                bool
}{
	{"other", "1", "default", "", "IfNotPresent", "section", false},
	{"other", "1", "default", "Always", "Always", "hint", false},
	{"team-a/app", "1", "team-a", "", "Always", "10-first.toml#1", false},
	{"team-a/app", "1", "team-a-x", "", "Always", "10-first.toml#1", false},
	{"team-a/app", "1", "team-a", "Never", "Always", "10-first.toml#1", false},
	{"team-a/deep/app", "1", "team-b", "", "IfDigestChanged", "10-first.toml#2", false},
	{"team-a/deep/app", "1", "team-b", "Always", "Always", "hint", false},
	{"team-a/deep/app", "1", "team-b", "Never", "IfDigestChanged", "10-first.toml#2", true},
	{"team-b/app", "1", "default", "", "Never", "20-second.toml#1", true},
	{"team-b/deep/app", "1", "default", "", "IfNotPresent", "section", false},
	{"tags/app", "v1", "default", "", "Always", "10-first.toml#3", false},
	{"tags/app", "w1", "default", "", "IfNotPresent", "section", false},
}

// TestRules pulls under ruleFiles, with IfNotPresent in the section.
func TestRules(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(`default_policy = "IfNotPresent"`))
	for name, content := range ruleFiles {
		n.WriteRules(name, content)
	}
	n.Restart()
	for _, tt := range ruleTests {
		t.Run(strings.Join([]string{tt.repo, tt.tag, tt.namespace, tt.hint}, " "), func(t *testing.T) {
			n := n.In(t)
			n.Push(tt.repo+":"+tt.tag, nodetest.Image(1))
			ref := nodetest.Named(tt.repo + ":" + tt.tag)
			opts := []node.PullOption{node.Pod(tt.namespace, "pod")}
			if tt.hint != "" {
				opts = append(opts, node.Hint("policy", tt.hint))
			}
			mark := n.Mark()
			_, err := n.Pull(ref, opts...)
			nodetest.Want(t, "pull fails", err != nil, tt.fails)
			got := n.Decision(mark, ref)
			nodetest.Want(t, "policy", got.Policy, tt.policy)
			part := "policy=" + tt.policy + "("
			if got.Reason == "bad_hint" { // what the mode of hints says is what decides
				part = "hints="
			}
			if !strings.Contains(got.DecidedBy, part) || !strings.Contains(got.DecidedBy, tt.by) {
				t.Errorf("decided by %s, want %s from %s", got.DecidedBy, part, tt.by)
			}
		})
	}
}

// TestDirectivesOfRules holds that a rule's other directives count too, and
// that what it leaves out comes from the section.
func TestDirectivesOfRules(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(`default_policy = "IfDigestChanged"`, `max_age = "1h"`, `on = { not_found = "Fail" }`))
	n.WriteRules("a.toml", `
[[rule]]
images = ["registry.test/strict/*"]
max_age = "0s"
[rule.on]
unreachable = "Fail"
`)
	n.Restart()
	for _, repo := range []string{"app", "strict/app"} {
		n.Push(repo+":1", nodetest.Image(1))
		n.MustPull(nodetest.Named(repo + ":1"))
	}
	outcome := func(repo string, opts ...node.PullOption) string {
		t.Helper()
		mark := n.Mark()
		_, _ = n.Pull(nodetest.Named(repo+":1"), opts...)
		return n.Decision(mark, nodetest.Named(repo+":1")).Outcome
	}
	nodetest.Eventually(t, "the check counts", func() bool { return outcome("app") == "Fresh" })
	nodetest.Want(t, "outcome under the rule", outcome("strict/app"), "Unchanged")
	n.Registry.Refuse()
	nodetest.Want(t, "outcome with the registry down", outcome("app", node.Hint("max-age", "0s")), "UsedCached")
	nodetest.Want(t, "outcome under the rule", outcome("strict/app"), "Failed")
	n.Recover()
	n.DeleteTag("app", "1")
	n.DeleteTag("strict/app", "1")
	nodetest.Want(t, "outcome without the tag", outcome("app", node.Hint("max-age", "0s")), "Failed")
	nodetest.Want(t, "outcome under the rule", outcome("strict/app"), "Failed")
}
