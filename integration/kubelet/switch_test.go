// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestSwitch holds that pods go on while the daemon under them is stock containerd,
// then the one with pullwarden, and back, twice; that a container restarts and a pod
// starts under each; and that nothing is downloaded again.
func TestSwitch(t *testing.T) {
	stock := nodetest.OnlySection()
	ours := nodetest.OnlySection("enabled = true", nodetest.IfDigestChanged)
	onNode(t, func(k *Kubelet) {
		own, err := nodetest.Binary()
		k.Node.Must(err)
		d := k.Push("app:1", 1)
		stays, restarts := k.Run(app("app:1", Always)), k.Run(app("app:1", IfNotPresent))
		stays.WantStarted(d)
		restarts.WantStarted(d)
		id := stays.containers()[0].GetId()

		k.Node.Registry.Forget()
		for i, daemon := range [][]nodetest.Option{
			{nodetest.Daemon(own), ours},
			{nodetest.Daemon(binary(t, stockEnv)), stock},
			{nodetest.Daemon(own), ours},
		} {
			k.Node.Restart(daemon...)
			restarts.Crash()
			restarts.WantRestarted(i+1, d)
			k.Run(app("app:1", Always)).WantStarted(d)
			k.Run(app("app:1", IfNotPresent)).WantStarted(d)
			stays.WantRestarted(0, d)
			nodetest.Want(t, "container of the pod that goes on", stays.containers()[0].GetId(), id)
		}
		nodetest.Want(t, "downloads", k.Node.Registry.Count(resolvertest.Of("", resolvertest.Blobs)), 0)
	}, nodetest.Daemon(binary(t, stockEnv)), stock)
}
