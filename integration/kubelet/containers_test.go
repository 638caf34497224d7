// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestContainers holds that each image of a pod is checked by itself: those of its
// init containers, its containers and its volumes.
func TestContainers(t *testing.T) {
	onNode(t, func(k *Kubelet) {
		pod := Pod{Init: []string{"init:1"}, Images: []string{"one:1", "two:1"}, Volumes: []string{"data:1"}, Pull: Always, Hints: []string{"policy", "IfDigestChanged"}}
		k.Node.Push("init:1", nodetest.Busybox(t, 1, "true"))
		k.Node.Push("data:1", nodetest.Image(1))
		one, two := k.Push("one:1", 2), k.Push("two:1", 3)
		k.Run(pod).WantStarted(one, two)

		mark := k.Node.Mark()
		pushed := k.Node.Push("init:1", nodetest.Busybox(t, 4, "true"))
		data := k.Node.Push("data:1", nodetest.Image(2))
		two = k.Push("two:1", 5)
		r := k.Run(pod)
		r.WantStarted(one, two)
		// The kubelet asks for a volume's image again each time that it looks at the pod.
		for name, outcome := range map[string]string{"init:1": "Pulled", "one:1": "Unchanged", "two:1": "Pulled", "data:1": "Pulled"} {
			k.wantOutcome(mark, nodetest.Named(name), outcome)
		}
		nodetest.Want(t, "target of the init container's image", k.Node.Target(nodetest.Named("init:1")), pushed)
		nodetest.Want(t, "target of the volume's image", k.Node.Target(nodetest.Named("data:1")), data)
		if got := r.Read("volume-0/layer-0"); got == "" {
			t.Error("the volume has nothing of its image")
		}
	})
}

// TestNamespaces holds that pods in two namespaces have two rules: one is checked at
// each start, the other only when its image is absent.
func TestNamespaces(t *testing.T) {
	onNode(t, func(k *Kubelet) {
		fixed := Pod{Images: []string{"app:1"}, Pull: Always, Namespace: "fixed-a"}
		moving := Pod{Images: []string{"app:1"}, Pull: Always, Namespace: "moving"}
		first := k.Push("app:1", 1)
		k.Run(fixed).WantStarted(first)
		k.Run(moving).WantStarted(first)

		second := k.Push("app:1", 2)
		k.Run(fixed).WantStarted(first)
		k.Run(moving).WantStarted(second)
		mark := k.Node.Mark()
		k.Run(fixed).WantStarted(second)
		got := k.Node.Decision(mark, nodetest.Named("app:1"))
		nodetest.Want(t, "outcome", got.Outcome, "Present")
		nodetest.Want(t, "namespace", got.Namespace, "fixed-a")
	}, nodetest.Section(`default_policy = "Never"`), rules(t, `
[[rule]]
images     = ["registry.test/**"]
namespaces = ["fixed-*"]
policy     = "IfNotPresent"
[[rule]]
images     = ["registry.test/**"]
namespaces = ["moving"]
policy     = "IfDigestChanged"
`))
}
