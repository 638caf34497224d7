// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package starts

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
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

// TestNamespaceInDoubt holds that a pod that cannot be told apart, after a restart of the kubelet, is governed as soon as
// all are that it may be, and once it has pulled, or had a container made. No annotation of its own makes it another.
func TestNamespaceInDoubt(t *testing.T) {
	t.Parallel()
	n := withPods(t, ofTeamA)
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	id := n.MustPull(ref)
	other := newPod(n, "team-b", "other", "app", "other")
	other.run()
	p := newPod(n, "team-a", "pod", "app", "mine")
	p.run()
	p.annotations["app"] = "other" // kubectl annotate
	p.wants(ref, false)
	p.seenAgain()
	p.mustStart(ref, "")
	p.mustStart(ref, "")
	p.runWithVolume(id, id)
	p.mustStart(ref, "Unchanged")
	p.mustStart(ref, "Unchanged")
	other.wants(ref, true)
	other.seenAgain()
	other.wants(ref, true, true)
	p.seenAgain()
	p.mustStart(ref, "")
	n.Must(second(p.starts("Always", ref)))
	p.mustStart(ref, "Unchanged")
	other.ends(t.Context())
	p.seenAgain()
	p.mustStart(ref, "Unchanged")
	p.ends(t.Context())
	other.seenAgain()
	other.wants(ref, true)
}

// TestStrictInDoubt holds that a pod that cannot be told apart has to prove itself as soon as one has that it may be: no annotation
// and no imagePullPolicy of its own gets it a private image. One of a namespace that asks for no proof fails once at most.
func TestStrictInDoubt(t *testing.T) {
	t.Parallel()
	n := withAlice(t, ofTeamA+"access = 'Strict'\n")
	ref := nodetest.Named("private/app:1")
	n.Push("private/app:1", nodetest.Image(1))
	n.MustPull(ref, alice)
	other := newPod(n, "team-b", "other", "app", "other")
	other.run()
	thief := newPod(n, "team-a", "thief", "app", "other")
	thief.secrets = []node.PullOption{wrong}
	thief.run()
	n.Registry.Refuse()
	for range 2 {
		thief.seenAgain()
		thief.wants(ref, false, false, false)
		if _, err := thief.starts("IfNotPresent", ref); err == nil {
			t.Error("it pulls by a wrong secret")
		}
	}
	other.seenAgain()
	if _, err := other.starts("IfNotPresent", ref); err == nil {
		t.Error("a pod starts that may be one of the other namespace")
	}
	other.mustStart(ref, "")
}

func second(_ string, err error) error { return err }
