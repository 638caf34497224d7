// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package starts

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestTrialInOneNamespaceLeavesOthersAlone holds that a rule for the starts of one namespace, as docs/fresh.md
// recommends to begin with, fails no pod of another one, for which govern is Pulls: after the kubelet was restarted,
// while the registry is down, or refuses the pod's secret.
func TestTrialInOneNamespaceLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	n := withPods(t, ofTeamA) // default_policy is the built-in one, Always
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	other := newPod(n, "prod", "other")
	other.run()
	if id, err := other.starts("IfNotPresent", ref); err != nil || id == "" {
		t.Fatalf("before: %v", err)
	}
	trial := newPod(n, "team-a", "pod")
	trial.run()
	n.Registry.Refuse()
	if _, err := other.starts("IfNotPresent", ref); err != nil {
		t.Errorf("a container is restarted while the registry is down: %v", err)
	}
	other.seenAgain() // systemctl restart kubelet
	if _, err := other.starts("IfNotPresent", ref); err != nil {
		t.Errorf("the same after a restart of the kubelet: %v", err)
	}
	if _, err := other.starts("IfNotPresent", ref); err != nil {
		t.Errorf("and again: %v", err)
	}
}

// TestTrialBesideObserve holds the same where all but the trial's namespace is observed: nothing is enforced there, and
// a pod with imagePullPolicy: IfNotPresent starts from the image that is there.
func TestTrialBesideObserve(t *testing.T) {
	t.Parallel()
	n := withPods(t, ofTeamA+"mode = 'Enforce'\n", nodetest.OnlySection("enabled = true", `mode = "Observe"`))
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	id := n.MustPull(ref)
	other := newPod(n, "prod", "other")
	other.run()
	trial := newPod(n, "team-a", "pod")
	trial.run()
	n.Push("app:1", nodetest.Image(2))
	got, err := other.starts("IfNotPresent", ref)
	n.Must(err)
	nodetest.Want(t, "the image before", got, id)
	other.seenAgain() // systemctl restart kubelet
	got, err = other.starts("IfNotPresent", ref)
	n.Must(err)
	nodetest.Want(t, "the image after a restart of the kubelet", got, id)
	n.Registry.Refuse()
	if _, err = other.starts("IfNotPresent", ref); err != nil {
		t.Errorf("with the registry down: %v", err)
	}
}
