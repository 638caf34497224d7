// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A pod whose annotations have a label of snapshots learns nothing of what is on the node: CRI hands annotations of a pod on to the
// snapshot of its sandbox.
func TestPresenceByAnAnnotationOfAPod(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Containers(t))
	alices, pause := resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{alice.user: alice.password})), resolvertest.New(t)
	n.Serve("a.private.test", alices)
	img := nodetest.Image(7)
	n.PushTo(alices, "team/app:7", img)
	pod := n.RunPod(pause)
	run := func(name string) string {
		return fmt.Sprint(pod.RunBeside(name, map[string]string{"containerd.io/snapshot.ref": nodetest.ChainOf(t, img)}))
	}
	before := run("before")
	n.MustPull("a.private.test/team/app:7", alice.secret())
	nodetest.Want(t, "error of a pod once a private image is there", run("after"), before)
}
