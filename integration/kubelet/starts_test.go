// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// starts is a rule by which the policy holds at every start of a container.
const starts = "[[rule]]\nimages = ['registry.test/**']\npolicy = 'IfDigestChanged'\ngovern = 'Starts'\n"

// TestStarts holds that under govern = "Starts" pods with imagePullPolicy: IfNotPresent
// and no hint follow their tag, forth and back, also when a container of theirs restarts
// and when the kubelet does, and start from the cached image while the registry is down.
func TestStarts(t *testing.T) {
	onNode(t, func(k *Kubelet) {
		pod := app("app:1", IfNotPresent)
		first := k.Push("app:1", 1)
		old := k.Run(pod)
		old.WantStarted(first)

		second := k.Push("app:1", 2)
		k.Run(pod).WantStarted(second)
		k.Run(pod).WantStarted(second)
		old.Crash()
		old.WantRestarted(1, second)

		k.Node.Registry.Refuse()
		mark := k.Node.Mark()
		k.Run(pod).WantStarted(second)
		k.wantOutcome(mark, nodetest.Named("app:1"), "UsedCached")
		k.Node.Restore()

		k.Restart()
		third := k.Push("app:1", 3)
		k.Run(Pod{Init: []string{"init:1"}, Images: []string{"app:1", "app:1"}, Pull: IfNotPresent}).WantWaiting("ErrImagePull")
		k.Node.Push("init:1", nodetest.Busybox(t, 4, "true"))
		k.Run(Pod{Init: []string{"init:1"}, Images: []string{"app:1", "app:1"}, Pull: IfNotPresent}).WantStarted(third, third)
		old.Crash()
		old.WantRestarted(2, third)

		k.Node.Tag("app", "1", first)
		k.Run(pod).WantStarted(first)
		old.Crash()
		old.WantRestarted(3, first)
	}, rules(t, starts))
}

// TestStartsThatNeverPull holds that under govern = "Starts" pods with imagePullPolicy:
// Never start one retry later, and at once after that.
func TestStartsThatNeverPull(t *testing.T) {
	onNode(t, func(k *Kubelet) {
		first := k.Push("app:1", 1)
		k.Run(app("app:1", IfNotPresent)).WantStarted(first)
		k.Push("app:1", 2)
		k.Node.Registry.Forget()
		mark := k.Node.Mark()
		r := k.Run(app("app:1", Never))
		r.WantStarted(first)
		answers := func(answer string) int {
			return len(k.Node.LogLines(mark, "a pod asks whether an image is there", `"answer":"`+answer+`"`))
		}
		nodetest.Want(t, "answers to pull", answers("pull"), 1)
		nodetest.Want(t, "answers with the image", answers("no_pull"), 1)
		r.Crash()
		r.WantRestarted(1, first)
		nodetest.Want(t, "answers to pull", answers("pull"), 1)
		nodetest.Want(t, "requests", k.Node.Requests(), "")
	}, rules(t, starts))
}

// TestFreshStarts holds that with max_age the image is simply there, for containers and
// for image volumes.
func TestFreshStarts(t *testing.T) {
	onNode(t, func(k *Kubelet) {
		pod := Pod{Images: []string{"app:1"}, Volumes: []string{"data:1"}, Pull: IfNotPresent}
		first := k.Push("app:1", 1)
		k.Node.Push("data:1", nodetest.Image(1))
		k.Run(pod).WantStarted(first)
		k.Push("app:1", 2)
		k.Node.Registry.Forget()
		mark := k.Node.Mark()
		k.Run(pod).WantStarted(first)
		nodetest.Want(t, "requests", k.Node.Requests(), "")
		nodetest.Want(t, "decisions", len(k.Node.Decisions(mark, "")), 0)
	}, rules(t, starts+"max_age = '1h'\n"))
}

// TestStrictStarts holds that access = "Strict" keeps an image that is there from pods
// without a proof under a kubelet that verifies no credentials itself: whatever their
// pull policy, by tag and by digest, with the registry up or down.
func TestStrictStarts(t *testing.T) {
	onPrivate(t, func(k *Kubelet) {
		k.Config["featureGates"] = map[string]any{"KubeletEnsureSecretPulledImages": false}
		k.Restart()
		d := k.Push("private:1", 1)
		k.Run(with("alice", "private:1")).WantStarted(d)
		k.Run(with("", "private:1")).WantStarted(d) // what it is about

		k.Node.WriteRules("strict.toml", starts+"access = 'Strict'\n")
		for _, begin := range []func(){func() {}, k.Node.Registry.Refuse, k.Restart} {
			begin()
			var denied []Pod
			for _, image := range []string{"private:1", "private@" + d.String()} {
				denied = append(denied, with("", image), with("wrong", image), Pod{Images: []string{image}, Pull: Never, Secret: "alice"})
			}
			wantAllDenied(k, denied...)
			k.Run(with("alice", "private:1")).WantStarted(d)
			k.Run(with("alice-again", "private@"+d.String())).WantStarted(d)
		}
	})
}
