// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"
)

// TestRules is the table of which rule decides, and of the precedence of
// default, section, rule and hint.
func TestRules(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(`default_policy = "IfNotPresent"`))
	n.rules("10-first.toml", `
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
`)
	n.rules("20-second.toml", `
[[rule]]
images = ["registry.test/team-a/**", "registry.test/team-b/*"]
policy = "Never"
`)
	n.rules("30-ignored.txt", "this is no TOML")
	n.restart()
	tests := []struct {
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
	for _, tt := range tests {
		t.Run(strings.Join([]string{tt.repo, tt.tag, tt.namespace, tt.hint}, " "), func(t *testing.T) {
			n.push(tt.repo+":"+tt.tag, image(1))
			ref := named(tt.repo + ":" + tt.tag)
			opts := []pullOption{podNamespace(tt.namespace)}
			if tt.hint != "" {
				opts = append(opts, hint("policy", tt.hint))
			}
			mark := n.mark()
			_, err := n.pull(ref, opts...)
			want(t, "pull fails", err != nil, tt.fails)
			got := n.decision(mark, ref)
			want(t, "policy", got.policy, tt.policy)
			part := "policy=" + tt.policy + "("
			if got.reason == "bad_hint" { // what the mode of hints says is what decides
				part = "hints="
			}
			if !strings.Contains(got.by, part) || !strings.Contains(got.by, tt.by) {
				t.Errorf("decided by %s, want %s from %s", got.by, part, tt.by)
			}
		})
	}
}

// TestDirectivesOfRules holds that a rule's other directives count too, and
// that what it leaves out comes from the section.
func TestDirectivesOfRules(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(`default_policy = "IfDigestChanged"`, `max_age = "1h"`, `on = { not_found = "Fail" }`))
	n.rules("a.toml", `
[[rule]]
images = ["registry.test/strict/*"]
max_age = "0s"
[rule.on]
unreachable = "Fail"
`)
	n.restart()
	for _, repo := range []string{"app", "strict/app"} {
		n.push(repo+":1", image(1))
		n.mustPull(named(repo + ":1"))
	}
	outcome := func(repo string, opts ...pullOption) string {
		t.Helper()
		mark := n.mark()
		_, _ = n.pull(named(repo+":1"), opts...)
		return n.decision(mark, named(repo+":1")).outcome
	}
	eventually(t, "the check counts", func() bool { return outcome("app") == "Fresh" })
	want(t, "outcome under the rule", outcome("strict/app"), "Unchanged")
	n.r.Refuse()
	want(t, "outcome with the registry down", outcome("app", hint("max-age", "0s")), "UsedCached")
	want(t, "outcome under the rule", outcome("strict/app"), "Failed")
	n.restore()
	if err := n.r.DeleteTag(t.Context(), "app", "1"); err != nil {
		t.Fatal(err)
	}
	if err := n.r.DeleteTag(t.Context(), "strict/app", "1"); err != nil {
		t.Fatal(err)
	}
	want(t, "outcome without the tag", outcome("app", hint("max-age", "0s")), "Failed")
	want(t, "outcome under the rule", outcome("strict/app"), "Failed")
}
