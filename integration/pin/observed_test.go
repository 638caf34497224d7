// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// containerd's own pull of an observed pod takes no pin away, unless the tag has moved.
func TestObservedPullTakesNoPin(t *testing.T) {
	for _, images := range []string{"use_local_image_pull = false", "use_local_image_pull = true"} {
		t.Run(images, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.CRIImages(images))
			ref := nodetest.Named("app:1")
			n.Push("app:1", nodetest.Image(1))
			n.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\nnamespaces = [\"dev\"]\nmode = \"Observe\"\n[[rule]]\nimages = [\"**\"]\npin = true\n")
			n.MustPull(ref, node.Pod("prod", "pod"))
			wantPinned(n, ref)
			time.Sleep(4 * time.Second) // the keeper would put it back for a moment
			if _, err := n.Pull(ref, node.Pod("dev", "pod")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			wantPinned(n, ref)
		})
	}
}
