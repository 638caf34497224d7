// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package starts

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// observedButTeamA has the policy enforced at the starts of pods of one namespace, and all others observed.
const observedButTeamA = ofTeamA + "mode = 'Enforce'\n"

func observed() nodetest.Option { return nodetest.OnlySection("enabled = true", `mode = "Observe"`) }

// TestTrialInOneNamespaceLeavesOthersAlone holds that a rule for the starts of one namespace fails no pod of another one,
// for which govern is Pulls: after the kubelet was restarted, while the registry is down.
func TestTrialInOneNamespaceLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	n := withPods(t, ofTeamA) // the others have the built-in policy, Always
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	other := newPod(n, "prod", "other")
	other.run()
	newPod(n, "team-a", "pod").run()
	n.Registry.Refuse()
	for _, when := range []string{"before", "after", "long after"} {
		if _, err := other.starts("IfNotPresent", ref); err != nil {
			t.Errorf("%s a restart of the kubelet, a container does not start while the registry is down: %v", when, err)
		}
		if when == "before" {
			other.seenAgain()
		}
	}
}

// TestTrialBesideObserve holds the same where all but the trial's namespace is observed: a pod with IfNotPresent starts
// from the image that is there, though the tag has moved.
func TestTrialBesideObserve(t *testing.T) {
	t.Parallel()
	n := withPods(t, observedButTeamA, observed())
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	id := n.MustPull(ref)
	other := newPod(n, "prod", "other")
	other.run()
	newPod(n, "team-a", "pod").run()
	n.Push("app:1", nodetest.Image(2))
	for range 3 {
		got, err := other.starts("IfNotPresent", ref)
		n.Must(err)
		nodetest.Want(t, "the image", got, id)
		other.seenAgain()
	}
}

// TestTrialAndAlways holds that pods of other namespaces that pull at each start get the newest image, by kubelets that
// ask before that, as those before 1.33 do, and by those that do not.
func TestTrialAndAlways(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]struct {
		rules string
		opts  []nodetest.Option
		asks  bool
	}{
		"enforced":                 {ofTeamA, nil, false},
		"enforced and asks before": {ofTeamA, nil, true},
		"observed":                 {observedButTeamA, []nodetest.Option{observed()}, false},
		"observed and asks before": {observedButTeamA, []nodetest.Option{observed()}, true},
		"strict and asks before":   {ofTeamA + "access = 'Strict'\n", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := withPods(t, start.rules, start.opts...)
			ref := nodetest.Named("app:1")
			n.Push("app:1", nodetest.Image(1))
			n.MustPull(ref)
			other := newPod(n, "prod", "other")
			other.run()
			newPod(n, "team-a", "pod").run()
			other.seenAgain()
			for i := int64(2); i < 5; i++ {
				n.Push("app:1", nodetest.Image(i))
				if start.asks {
					other.asks(ref)
				}
				got, err := other.starts("Always", ref)
				n.Must(err)
				nodetest.Want(t, "the image", got, n.MustPull(ref))
			}
		})
	}
}

// TestTrialAndProofs holds that a pod of another namespace without a proof is told no success for its pull, which the
// kubelet would take for one of its credentials; nor one whose secret the registry has ceased to take.
func TestTrialAndProofs(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]struct {
		rules string
		opts  []nodetest.Option
	}{
		"default":  {ofTeamA, nil},
		"observed": {observedButTeamA, []nodetest.Option{observed()}},
		"any":      {ofTeamA + "[[rule]]\nimages = ['registry.test/**']\npolicy = 'Always'\naccess = 'Any'\n", nil},
		"strict":   {ofTeamA + "access = 'Strict'\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := withAlice(t, start.rules, start.opts...)
			ref := nodetest.Named("private/app:1")
			n.Push("private/app:1", nodetest.Image(1))
			n.MustPull(ref, alice, node.Pod("team-a", "owner"))
			newPod(n, "team-a", "pod").run()
			thief, owner := newPod(n, "prod", "thief"), newPod(n, "prod", "mine")
			thief.secrets, owner.secrets = []node.PullOption{wrong}, []node.PullOption{alice}
			thief.run()
			owner.run()
			for range 2 {
				thief.seenAgain()
				owner.seenAgain()
				for range 2 {
					thief.asks(ref)
					if _, err := thief.starts("Always", ref); err == nil {
						t.Error("a wrong secret pulls")
					}
					n.Must(second(owner.starts("Always", ref)))
				}
			}
			n.Registry.Allow(func(string, string) bool { return false })
			n.Registry.RevokeTokens()
			owner.seenAgain()
			for range 2 {
				owner.asks(ref)
				if _, err := owner.starts("Always", ref); err == nil {
					t.Error("a secret pulls that the registry refuses")
				}
			}
		})
	}
}
