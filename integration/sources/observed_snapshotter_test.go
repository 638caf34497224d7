// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// A pod of a namespace under mode = "Observe", of another runtime, has an image pulled once more, of which layers were discarded (as on
// EKS). All comes from the one host that is allowed: others start from it while the registry is down.
func TestObservedPullForAnotherSnapshotter(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"Enforce", "Observe"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.NativeRuntime(), nodetest.CRIImages("discard_unpacked_layers = true"))
			n.Push("app:1", nodetest.Image(1))
			n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"dev\"]\nmode = %q\n[[rule]]\nimages = [\"**\"]\nallowed_sources = [%q]\n", mode, n.Registry.Host()))
			ref := nodetest.Named("app:1")
			n.MustPull(ref, node.Pod("prod", "pod"))
			n.CollectGarbage()
			n.MustPull(ref, node.Pod("dev", "pod"), node.RuntimeHandler("native"))
			time.Sleep(time.Second) // what was observed is recorded after the answer
			n.CollectGarbage()
			n.Registry.Refuse()
			mark := n.Mark()
			n.MustPull(ref, node.Pod("prod", "pod"))
			nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "UsedCached")
			n.MustPull(ref, node.Pod("prod", "pod"), node.Hint("policy", "IfNotPresent"))
		})
	}
}
