// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// An image that no rule pins any more is released without a request, also where the rules
// change while the daemon is down.
func TestRulesChange(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	one, two := nodetest.Named("one/app:1"), nodetest.Named("two/app:1")
	n.Push("one/app:1", nodetest.Image(1))
	n.Push("two/app:1", nodetest.Image(2))
	n.WriteRules("10.toml", pinRule("registry.test/one/**"))
	n.WriteRules("20.toml", pinRule("registry.test/two/**"))
	n.MustPull(one)
	n.MustPull(two)
	wantPinned(n, one)
	n.RemoveRules("10.toml")
	eventually(n, one, false)
	wantPinned(n, two)
	if img, _ := n.Record(one); img.Labels[criPin] != "" || img.Labels[node.LabelPrefix+"pinned"] != "" {
		t.Errorf("labels of a pin are left: %v", img.Labels)
	}
	n.WantTrueLabels()

	n.Stop()
	n.RemoveRules("20.toml")
	n.Start()
	eventually(n, two, false)
}

// A mistake in a rule file releases nothing: the last good rules are used.
func TestMistake(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.WriteRules("10.toml", pinRule("registry.test/app"))
	n.MustPull(ref)
	mark := n.Mark()
	n.WriteRules("10.toml", "[[rule]]\npin = 1\n")
	nodetest.Eventually(t, "the mistake is told", func() bool { return len(n.LogLines(mark, "are not taken")) > 0 })
	n.MustPull(ref)
	wantPinned(n, ref)
	n.Restart()
	n.MustPull(ref)
	wantPinned(n, ref)
}

// A rule for some namespaces pins for their pods, and no pod of another one takes that
// away, not even by a pull of its own; but for them alone nothing is pinned.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.WriteRules("10.toml", pinRule("registry.test/**")+"namespaces = [\"team-a\"]\n")
	a, b := node.Pod("team-a", "a"), node.Pod("team-b", "b")
	n.MustPull(ref, b)
	wantReleased(n, ref)
	n.MustPull(ref, a)
	eventually(n, ref, true)
	n.MustPull(ref, b)
	wantPinned(n, ref)
	n.Push("app:1", nodetest.Image(2))
	n.MustPull(ref, b)
	wantPinned(n, ref)
	n.RemoveRules("10.toml")
	eventually(n, ref, false)
}

// What a pod of another namespace pulls takes its room of the limit, if it keeps the pin of
// the tag.
func TestLimitAndAPullOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `pin_limit = "1MiB"`))
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.WriteRules("10.toml", pinRule("registry.test/**")+"namespaces = [\"team-a\"]\n")
	n.MustPull(ref, node.Pod("team-a", "a"))
	eventually(n, ref, true)
	n.Push("app:1", resolvertest.Image(2, 1, 2<<20))
	n.MustPull(ref, node.Pod("team-b", "b"))
	eventually(n, ref, false)
}

// The next decision releases, where no rule pins any more, whoever wrote the labels.
func TestForgedPin(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	n.SetLabels(ref, map[string]string{"pinned": "2026-01-02T03:04:05Z"})
	setCRIPin(n, ref, criValue)
	n.MustPull(ref)
	eventually(n, ref, false)
}
