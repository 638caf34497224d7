// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import "testing"

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
