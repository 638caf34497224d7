// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

const decisionLog = `not JSON, as of a panic: pullwarden: r.test/a:1
{"level":"info","msg":"PullImage \"r.test/a:1\""}
{"level":"info","msg":"pullwarden: image decided","image":"r.test/a:1","outcome":"Pulled","reason":"absent","pod_namespace":"x","elapsed":"3ms"}
{"level":"info","msg":"pullwarden: image decided","image":"r.test/a:10","outcome":"Unchanged"}
{"level":"info","msg":"pullwarden: rules changed for r.test/a:1"}
`

// TestDecisions reads decisions from a log that has other lines too.
func TestDecisions(t *testing.T) {
	t.Parallel()
	n, err := node.New(node.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := n.Decision(n.Mark(), "r.test/a:1"); err == nil {
		t.Error("there is a decision without a log")
	}
	if err := n.Write(n.LogFile(), decisionLog); err != nil {
		t.Fatal(err)
	}
	got, err := n.Decision(0, "r.test/a:1")
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Want(t, "decision", got, node.Decision{
		Level: "info", Message: "pullwarden: image decided", Image: "r.test/a:1", Namespace: "x", Outcome: "Pulled", Reason: "absent", Elapsed: "3ms",
	})
	all, err := n.Decisions(0, "")
	if err != nil || len(all) != 2 {
		t.Errorf("decisions about all images are %v, %v", all, err)
	}
	mark := n.Mark()
	if all, err := n.Decisions(mark, ""); err != nil || len(all) > 0 {
		t.Errorf("decisions since the mark are %v, %v", all, err)
	}
	if err := n.Write(n.LogFile(), strings.Repeat(decisionLog, 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Decision(0, "r.test/a:1"); err == nil {
		t.Error("two decisions are taken for one")
	}
	if got, err := n.Decision(mark, "r.test/a:1"); err != nil || got.Outcome != "Pulled" {
		t.Errorf("the decision since the mark is %v, %v", got, err)
	}
}
