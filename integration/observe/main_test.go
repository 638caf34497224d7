// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe tests on a node that mode = "Observe" leaves pulls as containerd
// makes them by itself, and tells what would have been decided.
package observe

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// observing is the line that makes the section, or a rule, one that is observed.
const observing = `mode = "Observe"`

// byTransferService reports whether containerd's own pulls are made by its transfer
// service. They are not under any of the settings that nodes of tests can have.
func byTransferService(t *testing.T) bool {
	t.Helper()
	setting, err := node.SettingFromEnv()
	if err != nil {
		t.Fatal(err)
	}
	return setting.Name == ""
}

// slow reports whether a pull did not wait for the look at the node, because the machine
// was too busy. The pull has to be made again then.
func slow(d node.Decision) bool { return d.Outcome == "NotObserved" && d.Reason == "slow" }

// mustObserve pulls an image, ends the test if that fails, and holds what would have
// been decided. Before it pulls again, after a slow look, it calls again, which makes
// the image be as before; nil where the pull leaves it so.
func mustObserve(n *nodetest.Node, again func(), ref, outcome, reason string, opts ...node.PullOption) node.Decision {
	n.T.Helper()
	mark := n.Mark()
	n.MustPull(ref, opts...)
	got := n.Told(mark, ref)
	for slow(got) {
		if again != nil {
			again()
		}
		mark = n.Mark()
		n.MustPull(ref, opts...)
		got = n.Told(mark, ref)
	}
	if got.Outcome != outcome || got.Reason != reason || got.Observed == "" || got.StockPull != "succeeded" {
		n.T.Errorf("told %+v, want %s (%s), observed", got, outcome, reason)
	}
	return got
}

// mustFailObserved makes a pull that fails, and returns what would have been decided.
func mustFailObserved(n *nodetest.Node, ref string, opts ...node.PullOption) (node.Decision, error) {
	n.T.Helper()
	for {
		mark := n.Mark()
		err := n.MustFail(ref, nil, opts...)
		if got := n.Told(mark, ref); !slow(got) {
			return got, err
		}
	}
}

// removed returns a function that removes an image.
func removed(n *nodetest.Node, ref string) func() { return func() { n.Remove(ref) } }

// mustEnforce pulls an image and holds the outcome, which took effect.
func mustEnforce(n *nodetest.Node, ref, outcome, reason string, opts ...node.PullOption) {
	n.T.Helper()
	mark := n.Mark()
	_, err := n.Pull(ref, opts...)
	got := n.Decision(mark, ref)
	if got.Outcome != outcome || got.Reason != reason || got.Observed != "" || got.StockPull != "" || (err != nil) != (outcome == "Failed") {
		n.T.Errorf("decided %+v, %v; want %s (%s), enforced", got, err, outcome, reason)
	}
}
