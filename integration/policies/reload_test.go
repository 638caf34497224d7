// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

const neverRule = `
[[rule]]
images = ["registry.test/**"]
policy = "Never"
`

// TestReload changes rule files under a running daemon.
func TestReload(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	policy := func() string {
		mark := n.Mark()
		n.MustPull(ref)
		return n.Decision(mark, ref).Policy
	}
	nodetest.Want(t, "policy", policy(), "Always")

	n.WriteRules("a.toml", neverRule)
	nodetest.Eventually(t, "a new file counts", func() bool { return policy() == "Never" })

	mark := n.Mark()
	n.WriteRules("a.toml", "[[rule]]\nimages = [\"registry.test/**\"]\npolicy = \"Sometimes\"\n")
	nodetest.Eventually(t, "the mistake is logged with file, line and key", func() bool {
		return len(n.LogLines(mark, "a.toml:3", "policy", "Sometimes", "IfDigestChanged")) > 0
	})
	nodetest.Want(t, "policy after a mistake", policy(), "Never")

	mark = n.Mark()
	n.WriteRules("b.toml", "[[rule]]\nimages = [\"**\"]\npolcy = \"Always\"\n")
	nodetest.Eventually(t, "the unknown key is logged", func() bool { return len(n.LogLines(mark, "b.toml:3", "polcy")) > 0 })
	nodetest.Want(t, "policy after a second mistake", policy(), "Never")

	n.WriteRules("a.toml", "[[rule]]\nimages = [\"registry.test/**\"]\npolicy = \"IfDigestChanged\"\n")
	n.RemoveRules("b.toml")
	nodetest.Eventually(t, "mended files count", func() bool { return policy() == "IfDigestChanged" })

	n.RemoveRules("a.toml")
	nodetest.Eventually(t, "a removed file does not count", func() bool { return policy() == "Always" })
}
