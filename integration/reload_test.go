// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
)

const neverRule = `
[[rule]]
images = ["registry.test/**"]
policy = "Never"
`

// TestReload changes rule files under a running daemon.
func TestReload(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.push("app:1", image(1))
	ref := named("app:1")
	n.mustPull(ref)
	policy := func() string {
		mark := n.mark()
		n.mustPull(ref)
		return n.decision(mark, ref).policy
	}
	want(t, "policy", policy(), "Always")

	n.rules("a.toml", neverRule)
	eventually(t, "a new file counts", func() bool { return policy() == "Never" })

	mark := n.mark()
	n.rules("a.toml", "[[rule]]\nimages = [\"registry.test/**\"]\npolicy = \"Sometimes\"\n")
	eventually(t, "the mistake is logged with file, line and key", func() bool {
		return len(n.logged(mark, "a.toml:3", "policy", "Sometimes", "IfDigestChanged")) > 0
	})
	want(t, "policy after a mistake", policy(), "Never")

	mark = n.mark()
	n.rules("b.toml", "[[rule]]\nimages = [\"**\"]\npolcy = \"Always\"\n")
	eventually(t, "the unknown key is logged", func() bool { return len(n.logged(mark, "b.toml:3", "polcy")) > 0 })
	want(t, "policy after a second mistake", policy(), "Never")

	n.rules("a.toml", "[[rule]]\nimages = [\"registry.test/**\"]\npolicy = \"IfDigestChanged\"\n")
	n.removeRules("b.toml")
	eventually(t, "mended files count", func() bool { return policy() == "IfDigestChanged" })

	n.removeRules("a.toml")
	eventually(t, "a removed file does not count", func() bool { return policy() == "Always" })
}
