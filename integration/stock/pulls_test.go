// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestLocalPull holds that pulls past the transfer service still work and are
// checked, and that what they do not record is said loudly.
func TestLocalPull(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.CRIImages("use_local_image_pull = true"))
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	if len(n.LogLines(0, "pullwarden", `"level":"warning"`, "use_local_image_pull")) == 0 {
		t.Error("the log does not warn of use_local_image_pull")
	}
	mark := n.Mark()
	n.Registry.Forget()
	n.MustPull(ref)
	nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Unchanged")
	nodetest.Want(t, "requests", n.Requests(), "HEAD manifests")
	second := n.Push("app:1", nodetest.Image(2))
	n.MustPull(ref)
	nodetest.Want(t, "target", n.Target(ref), second)
	n.WantRunnable(ref)
	n.Registry.Refuse()
	n.MustPull(ref)
	n.MustFail(ref, []string{n.Registry.Host()}, node.Hint("policy", "Always"))
}

// TestRuntimeHandler holds that an image is made ready for the snapshotter of
// the pod's runtime handler.
func TestRuntimeHandler(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.NativeRuntime())
	n.Push("app:1", nodetest.Image(1))
	n.Push("app:2", nodetest.Image(2))
	n.MustPull(nodetest.Named("app:1"))
	n.WantRunnable(nodetest.Named("app:1"))
	for _, ref := range []string{nodetest.Named("app:1"), nodetest.Named("app:2")} {
		n.MustPull(ref, node.RuntimeHandler("native"))
		n.WantRunnableBy("native", ref)
	}
}

// TestOtherClients holds that no policy applies to transfers that do not come
// through CRI.
func TestOtherClients(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(`default_policy = "Never"`))
	n.Push("app:1", nodetest.Image(1))
	n.Transfer(nodetest.Named("app:1"))
	nodetest.Want(t, "verified-digest", n.Labels(nodetest.Named("app:1"))["verified-digest"], "")
	n.WaitForImage(nodetest.Named("app:1"))
	n.MustPull(nodetest.Named("app:1")) // Never uses what is there
}
