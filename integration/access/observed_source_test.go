// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// An observed pod's pull by digest that fetches nothing leaves where the image came from, however containerd pulls: under a list of
// sources the image is there for whoever has proved access to it, also while its registry is away.
func TestObservedPullByDigestForgetsNoSource(t *testing.T) {
	t.Parallel()
	for _, images := range []string{"use_local_image_pull = false", "use_local_image_pull = true"} {
		t.Run(images, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Start(t, nodetest.CRIImages(images))
			g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
			g.serve(n)
			n.WriteRules("10.toml", fmt.Sprintf(nodetest.ObserveDev+"[[rule]]\nimages = [\"r.test/**\"]\nallowed_sources = [%q]\n", g.Host()))
			s := g.scene(t, n, "private/app")
			s.digest = s.push("1", nodetest.Image(1))
			s.wantPull(alice, "Always", s.digest, "Pulled")
			s.waitForWrites()
			source := n.Labels(s.digest)["pull-source"]
			mark := n.Mark()
			if _, err := n.Pull(s.digest, bob.secret(), node.Pod("dev", "pod")); err != nil {
				t.Fatal(err)
			}
			n.Told(mark, s.digest)
			s.waitForWrites()
			nodetest.Want(t, "source", n.Labels(s.digest)["pull-source"], source)
			s.wantPull(alice, "Never", s.digest, "Present")
			g.Refuse()
			s.wantPull(alice, "IfNotPresent", s.digest, "Present")
		})
	}
}
