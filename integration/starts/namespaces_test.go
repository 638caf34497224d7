// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package starts

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// ofTeamA has the policy hold at the starts of pods of one namespace.
const ofTeamA = "[[rule]]\nimages = ['registry.test/**']\nnamespaces = ['team-a']\npolicy = 'IfDigestChanged'\ngovern = 'Starts'\n"

// TestNamespaces holds that a rule for a namespace is about the starts of its pods, which
// a question does not name.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	n := withPods(t, ofTeamA)
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	other := newPod(n, "team-b", "other")
	other.wants(ref, true, true) // there are no pods at all
	other.run()
	newPod(n, "team-b", "unknown").wants(ref, true)
	p := newPod(n, "team-a", "pod")
	p.run()
	p.mustStart(ref, "Unchanged")
	other.wants(ref, true, true)
	n.Restart()
	p.mustStart(ref, "Unchanged")
	other.wants(ref, true, true)
}

// TestNamespaceInDoubt holds that a pod that cannot be told apart is governed as soon as
// one is that it may be. No annotation of its own makes it another.
func TestNamespaceInDoubt(t *testing.T) {
	t.Parallel()
	n := withPods(t, ofTeamA)
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	other := newPod(n, "team-b", "other", "app", "other")
	other.run()
	p := newPod(n, "team-a", "pod", "app", "mine")
	p.run()
	p.annotations["app"] = "other" // kubectl annotate
	p.wants(ref, false)
	p.seenAgain()
	p.mustStart(ref, "Unchanged")
	p.mustStart(ref, "Unchanged")
	other.wants(ref, true)
	other.seenAgain()
	other.wants(ref, false, true) // a pull is an ordinary decision: it costs little
	p.ends(t.Context())
	other.seenAgain()
	other.wants(ref, true)
}
