// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestAlways holds that pods with imagePullPolicy: Always and the hint
// IfDigestChanged run from the digest that the tag has when they start: after a push,
// after none, after a rollback, and when a container of theirs restarts.
func TestAlways(t *testing.T) {
	onNode(t, func(k *Kubelet) {
		pod := app("app:1", Always, "policy", "IfDigestChanged")
		first := k.Push("app:1", 1)
		old := k.Run(pod)
		old.WantStarted(first)
		k.Run(pod).WantStarted(first)

		second := k.Push("app:1", 2)
		k.Run(pod).WantStarted(second)
		old.wantDigests(first)
		old.Crash()
		old.WantRestarted(1, second)

		k.Node.Tag("app", "1", first)
		k.Run(pod).WantStarted(first)
	})
}

// TestIfNotPresent holds that pods with imagePullPolicy: IfNotPresent run from the
// image that is there, also when a container of theirs restarts, and that no registry
// is asked for it.
func TestIfNotPresent(t *testing.T) {
	onNode(t, func(k *Kubelet) {
		pod := app("app:1", IfNotPresent, "policy", "IfDigestChanged")
		first := k.Push("app:1", 1)
		old := k.Run(pod)
		old.WantStarted(first)

		second := k.Push("app:1", 2)
		k.Node.Registry.Forget()
		k.Run(pod).WantStarted(first)
		old.Crash()
		old.WantRestarted(1, first)
		nodetest.Want(k.T, "requests", k.Node.Requests(), "")

		k.Run(app("app:1", Always)).WantStarted(second)
		k.Run(pod).WantStarted(second)
	})
}

// TestNever holds that pods with imagePullPolicy: Never run from an image that is
// there, also when a container of theirs restarts, and do not start without one; no
// registry is asked for it.
func TestNever(t *testing.T) {
	onNode(t, func(k *Kubelet) {
		pod := app("app:1", Never)
		first := k.Push("app:1", 1)
		k.Node.Registry.Forget()
		k.Run(pod).WantWaiting("ErrImageNeverPull")
		nodetest.Want(k.T, "requests for an image that is not there", k.Node.Requests(), "")

		k.Run(app("app:1", Always)).WantStarted(first)
		k.Push("app:1", 2)
		k.Node.Registry.Forget()
		old := k.Run(pod)
		old.WantStarted(first)
		old.Crash()
		old.WantRestarted(1, first)
		nodetest.Want(k.T, "requests for one that is", k.Node.Requests(), "")
	})
}
