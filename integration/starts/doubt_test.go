// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package starts

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestNoDoubtBesideRulesThatReuse holds that a rule for all namespaces knows no doubt beside one that has pods of another namespace
// reuse what is there.
func TestNoDoubtBesideRulesThatReuse(t *testing.T) {
	t.Parallel()
	n := withAlice(t, "[[rule]]\nimages = ['registry.test/**']\nnamespaces = ['kube-system']\npolicy = 'IfNotPresent'\n\n"+
		"[[rule]]\nimages = ['registry.test/**']\npolicy = 'Always'\ngovern = 'Starts'\n")
	ref := nodetest.Named("private/app:1")
	n.Push("private/app:1", nodetest.Image(1))
	n.MustPull(ref, alice)
	newPod(n, "kube-system", "proxy").run() // it runs another image
	p := newPod(n, "prod", "pod")
	p.secrets = []node.PullOption{alice}
	p.run()
	thief := newPod(n, "prod", "thief")
	thief.secrets = []node.PullOption{wrong}
	thief.run()
	p.wants(ref, false)
	thief.wants(ref, false)
	n.Push("private/app:1", nodetest.Image(2))
	p.seenAgain()
	thief.seenAgain()
	if p.asks(ref) != "" {
		t.Error("a pod under a rule without namespaces starts from the old image")
	}
	if id := thief.asks(ref); id != "" {
		t.Errorf("a pod without a proof gets a private image under govern = Starts, by IfNotPresent: create: %v", thief.creates("x", id))
	}
}

// TestHintMakesNoDoubt holds that nor is there any by a hint of the pod's own, which would count in the other namespace.
func TestHintMakesNoDoubt(t *testing.T) {
	t.Parallel()
	for _, hint := range []string{"Always", "IfDigestChanged", "Never", "Nonsense"} {
		t.Run(hint, func(t *testing.T) {
			t.Parallel()
			n := withAlice(t, "[[rule]]\nimages = ['registry.test/**']\nnamespaces = ['kube-system']\npolicy = 'IfNotPresent'\nhints = 'Allow'\n\n"+
				"[[rule]]\nimages = ['registry.test/**']\npolicy = 'Always'\ngovern = 'Starts'\nhints = 'Ignore'\n")
			ref := nodetest.Named("private/app:1")
			n.Push("private/app:1", nodetest.Image(1))
			n.MustPull(ref, alice)
			newPod(n, "kube-system", "proxy").run()
			thief := newPod(n, "prod", "thief", node.LabelPrefix+"policy", hint)
			thief.run()
			thief.wants(ref, false)
			thief.seenAgain()
			if thief.asks(ref) != "" {
				t.Error("a pod without a proof gets a private image by its hint")
			}
		})
	}
}

// TestHintOfAnotherNamespace holds that a pod whose hints are ignored gets nothing in doubt by one that counts elsewhere.
func TestHintOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	n := withPods(t, "[[rule]]\nimages = ['registry.test/**']\nnamespaces = ['dev']\npolicy = 'Always'\ngovern = 'Starts'\nhints = 'Allow'\n\n"+
		"[[rule]]\nimages = ['registry.test/**']\npolicy = 'Always'\ngovern = 'Starts'\nhints = 'Ignore'\n")
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	newPod(n, "dev", "dev").run()
	p := newPod(n, "prod", "pod", node.LabelPrefix+"policy", "IfNotPresent")
	p.run()
	p.wants(ref, false)
	p.seenAgain()
	if p.asks(ref) != "" {
		t.Error("a pod whose hints are ignored starts unchecked by its hint")
	}
}

// TestStrictIsNotLedRoundInDoubt holds that a pod in doubt gets no private image by what holds for others: lax rules, hints, copied
// annotations, IDs.
func TestStrictIsNotLedRoundInDoubt(t *testing.T) {
	t.Parallel()
	n := withAlice(t, "[[rule]]\nimages = ['registry.test/**']\nnamespaces = ['lax']\npolicy = 'IfNotPresent'\n\n"+
		"[[rule]]\nimages = ['registry.test/**']\nnamespaces = ['own']\npolicy = 'Always'\ngovern = 'Starts'\naccess = 'Strict'\naccess_identity = 'Namespace'\nhints = 'Allow'\n\n"+
		"[[rule]]\nimages = ['registry.test/**']\nnamespaces = ['eve']\npolicy = 'IfDigestChanged'\ngovern = 'Starts'\naccess = 'Strict'\naccess_identity = 'Namespace'\nmax_age='1h'\nhints = 'Allow'\n")
	ref := nodetest.Named("private/app:1")
	digest := n.Push("private/app:1", nodetest.Image(1))
	id := n.MustPull(ref, alice, node.Pod("own", "owner"))
	lax := newPod(n, "lax", "lax")
	lax.run()
	owner := newPod(n, "own", "owner")
	owner.run()
	for i, hint := range []string{"", "IfNotPresent", "Never"} {
		thief := newPod(n, "eve", fmt.Sprint("thief", i), "kubernetes.io/config.source", "file", "kubernetes.io/config.hash", "owner")
		if hint != "" {
			thief.annotations[node.LabelPrefix+"policy"] = hint
		}
		thief.secrets = []node.PullOption{wrong}
		thief.run()
		for range 2 {
			thief.seenAgain()
			lax.seenAgain()
			owner.seenAgain()
			if lax.asks(ref) == "" { // once
				_, _ = lax.pulls(ref)
			}
			lax.wants(ref, true)
			for _, name := range []string{ref, nodetest.Named("private/app@" + digest.String()), id} {
				for _, policy := range []string{"IfNotPresent", "Never", "Never", "Never"} {
					if _, err := thief.starts(policy, name); err == nil {
						t.Errorf("hint %q: %s gets %s", hint, policy, name)
					}
				}
			}
			_ = thief.creates("x", "sha256:0000000000000000000000000000000000000000000000000000000000000000")
			thief.wants(ref, false, false, false)
			thief.wants(id, false)
		}
	}
}
