// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestAdvice loads rules that are legal, and surely not meant: the daemon names each
// as pullwarden check does, once, at its start and when they change.
func TestAdvice(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t)
	n.WriteRules("10.toml", neverRule)
	n.WriteRules("20.toml", "[[rule]]\nimages = ['registry.test/team/**']\n[[rule]]\nimages = ['r.test/Team/**']\n")
	n.Run()
	warned := func(mark node.Mark) []string { return n.LogLines(mark, "warning", "pullwarden: rule ") }
	nodetest.Eventually(t, "both are named", func() bool { return len(warned(0)) == 2 })
	for _, words := range [][]string{
		{"20.toml#1", "the rule never decides", "the last of them rule 10.toml#1"},
		{"20.toml#2", "r.test/Team/**", "repositories are in lower case"},
	} {
		nodetest.Want(t, words[0], len(n.LogLines(0, words...)), 1)
	}
	mark := n.Mark()
	n.WriteRules("30.toml", neverRule)
	nodetest.Eventually(t, "the third is named", func() bool { return len(n.LogLines(mark, "warning", "30.toml#1")) == 1 })
	nodetest.Want(t, "warnings of all", len(warned(mark)), 3)
}
