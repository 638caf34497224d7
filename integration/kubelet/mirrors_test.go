// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestMirror holds that pods follow a mirror's tags, or the registry's own where
// their hint says so, and start while either of them is down, and both are.
func TestMirror(t *testing.T) {
	onNode(t, func(k *Kubelet) {
		mirror := resolvertest.New(t)
		k.Node.Serve("registry.test", k.Node.Registry, mirror)
		byMirror, byOrigin := app("app:1", Always), app("app:1", Always, "resolve-from", "Origin")
		first := k.Push("app:1", 1)
		k.Node.PushTo(mirror, "app:1", nodetest.Busybox(t, 1, "sleep", "86400"))
		k.Run(byMirror).WantStarted(first)

		second := k.Push("app:1", 2)
		k.Run(byMirror).WantStarted(first)
		k.Run(byOrigin).WantStarted(second)
		k.Run(byMirror).WantStarted(first)

		mirror.Refuse()
		k.Run(byMirror).WantStarted(second)
		k.Node.Registry.Refuse()
		k.Run(byMirror).WantStarted(second)
		k.Run(byOrigin).WantStarted(second)

		k.Node.Must(mirror.Restore())
		k.until("a pod follows the mirror again", func() error { return k.Run(byMirror).startedFrom(first) })
		k.Node.Restore()
		k.until("a pod follows the registry again", func() error { return k.Run(byOrigin).startedFrom(second) })
	}, nodetest.Section(nodetest.IfDigestChanged))
}
