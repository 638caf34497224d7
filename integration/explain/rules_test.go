// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const ruleFile = `# the rules of a node
[[rule]]
images     = ["registry.test/team-a/**"]
namespaces = ["team-a-*"]
max_age    = "1h"
hints      = "Tighten"

[[rule]]
images    = ["registry.test/team-b/**"]
policy    = "IfDigestChanged"
max_stale = "1ms"

[[rule]]
images = ["registry.test/team-a/**"]
policy = "IfNotPresent"
access = "Strict"
`

// questions are asked in each state of the registry, under ruleFile.
var questions = []question{
	{"registry.test/team-a/app:1", nobody, "team-a-prod", nil},
	{"registry.test/team-a/app:1", nobody, "team-b", nil},
	{"registry.test/team-a/app:1", nobody, "", nil},
	{"registry.test/team-b/app:1", nobody, "team-b", nil},
	{"registry.test/team-b/app:1", nobody, "team-b", []string{"max-stale", "0s"}},
	{"registry.test/team-b/app:1", nobody, "team-b", []string{"on-unreachable", "Fail", "on-not-found", "Fail"}},
	{"registry.test/other/app:1", nobody, "team-b", nil},
	{"registry.test/other/app:1", nobody, "team-b", []string{"max-stale", "1h"}},
	{"registry.test/other/app:1", alice, "team-b", []string{"policy", "IfNotPresent"}},
	{"registry.test/other/app:1", nobody, "team-b", []string{"max-age", "1h", "policy", "Always"}},
	{"registry.test/team-a/app:1", nobody, "team-a-prod", []string{"max-age", "2h"}},
	{"registry.test/team-a/app:1", nobody, "team-a-prod", []string{"max-age", "0s"}},
	{"registry.test/team-a/app:1", nobody, "team-a-prod", []string{"polcy", "Never"}},
	{"registry.test/team-a/imported:1", nobody, "team-b", nil},
	{"registry.test/other/imported:1", nobody, "team-b", []string{"policy", "IfNotPresent"}},
	{"registry.test/other/imported:1", nobody, "team-b", []string{"policy", "Never"}},
	{"registry.test/other/absent:1", nobody, "team-b", nil},
}

// TestRules is every question in each state of the registry.
func TestRules(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	n.WriteRules("10-teams.toml", ruleFile)
	for _, repo := range []string{"team-a", "team-b", "other"} {
		d := n.Push(repo+"/app:1", nodetest.Image(1))
		n.MustPull(nodetest.Named(repo + "/app:1"))
		n.Import(nodetest.Named(repo+"/imported:1"), nodetest.Image(2))
		questions = append(questions, question{fmt.Sprintf("registry.test/%s/app@%s", repo, d), alice, "default", nil})
	}
	tryAll := func() {
		for _, q := range questions {
			compare(n, q, n.Registry)
		}
	}
	n.Registry.Refuse()
	tryAll()
	n.Restore()
	undo := n.Registry.Status(resolvertest.Manifests, 404)
	tryAll()
	undo()
	tryAll()
	n.Push("team-b/app:1", nodetest.Image(3))
	n.Push("other/app:1", nodetest.Image(3))
	tryAll()
}

// TestRuleIsShown holds that the rule that matches is told with its place, with those
// before it that do not, and each directive with what set it.
func TestRuleIsShown(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	n.WriteRules("10-teams.toml", ruleFile)
	x := question{"registry.test/team-a/app:1", alice, "team-b", []string{"max-age", "5m"}}.explain(n, false)
	if x.Rule == nil || x.Rule.File != n.Path("rules", "10-teams.toml") || x.Rule.Line != 13 || x.Rule.Index != 3 {
		t.Errorf("rule %+v", x.Rule)
	}
	var passed []string
	for _, p := range x.Passed {
		passed = append(passed, fmt.Sprintf("%d:%d %s", p.Index, p.Line, p.Mismatch))
	}
	nodetest.Want(t, "passed", strings.Join(passed, ", "), "2:8 images, 1:2 namespaces")
	got := map[string]string{}
	for _, d := range x.Directives {
		got[d.Name] = d.Value + " " + d.Origin
	}
	for name, want := range map[string]string{
		"policy": "IfNotPresent rule 10-teams.toml#3", "access": "Strict rule 10-teams.toml#3", "max_age": "5m hint", "verify_timeout": "5s default",
	} {
		nodetest.Want(t, name, got[name], want)
	}
	if x := (question{ref: "registry.test/other:1", namespace: "team-b"}).explain(n, false); x.Rule != nil || len(x.Passed) != 3 {
		t.Errorf("without a rule: %+v, %+v", x.Rule, x.Passed)
	}
}

// TestVerifier holds that the verifiers of the node are asked, for images that are there
// and those that would be pulled.
func TestVerifier(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	n.Push("app:1", nodetest.Image(1))
	q := question{ref: nodetest.Named("app:1"), namespace: "default"}
	n.MustPull(q.ref)
	script := n.Path("verifiers", "verifier")
	n.Must(os.WriteFile(script, []byte("#!/bin/sh\necho the verifier says no\nexit 1\n"), 0o700))
	for _, hints := range [][]string{nil, {"policy", "Never"}} {
		q.hints = hints
		if d := compare(n, q, n.Registry); d.Reason != "verifier" {
			t.Errorf("%+v", d)
		}
	}
	n.Push("app:1", nodetest.Image(2))
	q.hints = nil
	x, d := q.explain(n, true), q.pull(n) // nobody can tell without asking what the registry has
	if endOf(x) != endOfDecision(d) || d.Outcome != "Failed" || d.Reason != "pull" {
		t.Errorf("%+v is explained as %+v", d, endOf(x))
	}
}
