// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestLocalPull holds that pulls are checked and made like all others where CRI is
// told to pull without the transfer service, and that nothing is to warn of.
func TestLocalPull(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.CRIImages("use_local_image_pull = true"))
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	nodetest.Want(t, "warnings of pullwarden", len(n.LogLines(0, "pullwarden: ", `"level":"warning"`)), 0)
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
