// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// containerd's own pull of an observed pod takes the size of a manifest that a mirror claims into the record of the tag, which others fall
// back to.
func TestSizeThatAMirrorClaimsToAnObservedPod(t *testing.T) {
	t.Parallel()
	for _, images := range []string{"use_local_image_pull = false", "use_local_image_pull = true"} {
		t.Run(images, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.CRIImages(images))
			img, mirror := nodetest.Image(1), resolvertest.New(t)
			n.Serve("registry.test", n.Registry, mirror)
			n.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\nnamespaces = [\"dev\"]\nmode = \"Observe\"\n[[rule]]\nimages = [\"**\"]\npolicy = \"IfDigestChanged\"\n")
			n.Push("app:1", img)
			n.PushTo(mirror, "app:1", img)
			tag := nodetest.Named("app:1")
			n.MustPull(tag, node.Pod("prod", "pod"))
			mirror.Script(claimsOneMore(n, img, "/manifests/1"))
			n.MustPull(tag, node.Pod("dev", "pod"))
			time.Sleep(time.Second) // what was observed is recorded after the answer
			size, err := img.Size()
			n.Must(err)
			if record, ok := n.Record(tag); !ok || record.Target.Size != size+1 {
				t.Errorf("the record does not have the claim: %+v", record.Target)
			}
			mirror.Refuse()
			n.Registry.Refuse()
			n.MustPull(tag, node.Pod("prod", "pod"))
			n.MustPull(tag, node.Pod("prod", "pod"), node.Hint("policy", "IfNotPresent"))
		})
	}
}
