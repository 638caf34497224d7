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

// A pod of an observed namespace had the same image by another repository, from which it was promoted, and pulls it by the name of prod
// once more, of which nothing is fetched. All has come from the one host that is allowed.
func TestObservedPullOfAPromotedImage(t *testing.T) {
	t.Parallel()
	for _, cri := range []string{"use_local_image_pull = false", "discard_unpacked_layers = true"} {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprint(cri, again), func(t *testing.T) {
				t.Parallel()
				n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.NativeRuntime(), nodetest.CRIImages(cri))
				img := nodetest.Image(1)
				n.Push("stage/app:1", img)
				n.Push("app:1", img)
				n.WriteRules("10.toml", fmt.Sprintf(nodetest.ObserveDev+"[[rule]]\nimages = [\"**\"]\nallowed_sources = [%q]\n", n.Registry.Host()))
				n.MustPull(nodetest.Named("stage/app:1"), node.Pod("dev", "pod"), node.RuntimeHandler("native"))
				time.Sleep(time.Second)
				n.CollectGarbage()
				ref := nodetest.Named("app:1")
				n.MustPull(ref, node.Pod("prod", "pod"))
				time.Sleep(time.Second) // no time of a label has less
				if again {
					n.MustPull(ref, node.Pod("dev", "pod"), node.RuntimeHandler("native"))
					time.Sleep(time.Second)
				}
				n.Registry.Refuse()
				n.MustPull(ref, node.Pod("prod", "pod"))
				n.MustPull(ref, node.Pod("prod", "pod"), node.Hint("policy", "IfNotPresent"))
			})
		}
	}
}
