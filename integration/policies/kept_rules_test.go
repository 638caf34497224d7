// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"os"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

const mistake = "[[rule]]\nimages = [\"**\"]\npolcy = \"Always\"\n"

// TestKeptRules starts a daemon with a broken rule file: the last good rules take
// its place, loudly, until it is mended.
func TestKeptRules(t *testing.T) {
	t.Parallel()
	metrics := nodetest.FreeAddress(t)
	n := nodetest.New(t, nodetest.MetricsAt(metrics))
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	decided := func() string {
		t.Helper()
		mark := n.Mark()
		n.MustPull(ref)
		d := n.Decision(mark, ref)
		return d.Policy + " " + d.DecidedBy
	}
	wantMetric := func(value string) {
		t.Helper()
		line := "pullwarden_rules_last_reload_successful " + value
		if got := n.Scrape(metrics); !strings.Contains(got, line+"\n") {
			t.Errorf("%q is not among the metrics", line)
		}
	}
	n.WriteRules("a.toml", neverRule)
	nodetest.Eventually(t, "the rule counts", func() bool { return strings.HasPrefix(decided(), "Never") })
	wantMetric("1")

	n.WriteRules("a.toml", mistake)
	mark := n.Mark()
	for _, opts := range [][]nodetest.Option{{nodetest.Section(`max_stale = "3h"`)}, nil} { // they outlast a start with them, too
		n.Restart(opts...)
		if got := decided(); !strings.HasPrefix(got, "Never") || !strings.Contains(got, "policy=Never(rule a.toml#1)") {
			t.Errorf("decided by %s", got)
		}
		wantMetric("0")
	}
	if lines := n.LogLines(mark, "error", "a.toml:3", "polcy", "last good ones are used instead: 1 rule of 1 file, kept on"); len(lines) != 2 { // what ran when the mistake came may tell of it as well
		t.Errorf("%d lines of the log tell of the mistake at a start: %q", len(lines), lines)
	}

	n.WriteRules("a.toml", "")
	nodetest.Eventually(t, "an empty file has no rules", func() bool { return strings.HasPrefix(decided(), "Always") })
	wantMetric("1")
	n.WriteRules("a.toml", neverRule)
	n.Restart()
	nodetest.Want(t, "policy", strings.Fields(decided())[0], "Never")
	n.Must(os.Rename(n.Path("rules"), n.Path("no-rules"))) // in one step: a directory that is empty for a moment has no rules
	n.Restart()
	nodetest.Want(t, "policy without the directory", strings.Fields(decided())[0], "Never")
	wantMetric("0")
}

// TestNoRuleDirectory starts a daemon whose config_path is not there.
func TestNoRuleDirectory(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t)
	n.Must(os.RemoveAll(n.Path("rules")))
	n.Run()
	for _, p := range []struct{ typ, id string }{
		{"io.containerd.image-policy.v1", "pullwarden"}, {"io.containerd.grpc.v1", "cri"},
	} {
		message := n.Plugin(p.typ, p.id).GetInitErr().GetMessage()
		for _, word := range []string{"config_path", n.Path("rules")} {
			if !strings.Contains(message, word) {
				t.Errorf("%s.%s: %q is not in the message %q", p.typ, p.id, word, message)
			}
		}
	}
	wantChecked(n, "config_path", n.Path("rules"))
	n.Must(os.Mkdir(n.Path("rules"), 0o700))
	n.Restart()
	wantChecked(n)
}

// TestKillsWhileRulesAreKept kills the daemon while its rules change, and starts it
// with a mistake: it comes up, each time, with rules that were once in force.
func TestKillsWhileRulesAreKept(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	for round := range 4 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 20 * (round + 1) {
				if err := n.Node.WriteRules("a.toml", strings.Repeat("# \n", i*1000)+neverRule); err != nil {
					t.Error(err)
				}
				_, _ = n.Pull(ref) // sees the change; the daemon may be gone
			}
		}()
		if round%2 == 0 {
			nodetest.Eventually(t, "a rule is in force", func() bool { return len(n.LogLines(0, "are used: 1 rule of 1 file")) > 0 })
		}
		n.Kill()
		<-done
		n.WriteRules("a.toml", mistake)
		mark := n.Mark()
		n.Restart()
		n.MustPull(ref)
		d := n.Decision(mark, ref)
		if d.Policy != "Never" && d.Policy != "Always" || len(n.LogLines(mark, "a.toml:3", "polcy")) == 0 {
			t.Errorf("round %d: policy %s", round, d.Policy)
		}
		if entries, err := os.ReadDir(n.Path("root", "io.containerd.image-policy.v1.pullwarden", "rules")); err != nil || len(entries) != 1 {
			t.Errorf("round %d: kept are %v, %v", round, entries, err)
		}
	}
}
