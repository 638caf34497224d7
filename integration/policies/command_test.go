// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestCommandAgreesOnRules runs the table of TestRules, which the daemon keeps, by
// the command line.
func TestCommandAgreesOnRules(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t)
	n.Write(n.Path("section.toml"), "[plugins.'io.containerd.image-policy.v1.pullwarden']\ndefault_policy = 'IfNotPresent'\n")
	for name, content := range ruleFiles {
		n.WriteRules(name, content)
	}
	var cases strings.Builder
	cases.WriteString("config = 'section.toml'\nrules = ['rules']\n")
	for _, tt := range ruleTests {
		fmt.Fprintf(&cases, "[[case]]\nimage = 'registry.test/%s:%s'\nnamespace = %q\n", tt.repo, tt.tag, tt.namespace)
		if tt.hint != "" {
			fmt.Fprintf(&cases, "hints = { policy = %q }\n", tt.hint)
		}
		fmt.Fprintf(&cases, "[case.expect]\npolicy = %q\n", tt.policy)
		if tt.fails && tt.hint != "" {
			cases.WriteString("error = 'which a hint may only tighten'\n")
		}
		if strings.Contains(tt.by, "#") {
			fmt.Fprintf(&cases, "rule = %q\n", tt.by)
		}
	}
	n.Write(n.Path("cases.toml"), cases.String())
	r := n.Command("test", n.Path("cases.toml"))
	nodetest.Want(t, "exit code", r.Code, 0)
	if want := fmt.Sprintf("%d cases, 0 failed\n", len(ruleTests)); !strings.HasSuffix(r.Stdout, want) {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
}

// wantChecked checks the node. There are findings of severity error only where the
// daemon does not start, with its words.
func wantChecked(n *nodetest.Node, words ...string) {
	n.T.Helper()
	r := n.Command("check", "-o", "json")
	var report struct {
		Findings []struct {
			Severity, File, Key, Text string
			Line                      int
		}
	}
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
		n.T.Fatalf("%v: %s%s", err, r.Stdout, r.Stderr)
	}
	errors := ""
	for _, f := range report.Findings {
		if f.Severity == "error" {
			errors += fmt.Sprintf("%s:%d %s: %s\n", f.File, f.Line, f.Key, f.Text)
		}
	}
	if (errors != "") != (len(words) > 0) || (r.Code == 1) != (errors != "") {
		n.T.Errorf("exit %d: the check finds\n%s", r.Code, errors)
	}
	for _, word := range words {
		if !strings.Contains(errors, strings.ReplaceAll(word, `\"`, `"`)) {
			n.T.Errorf("%q is not in what the check finds:\n%s", word, errors)
		}
	}
}
