// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"testing"
	"time"

	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// The pin of an operator stays where an observed pod pulls the same image once more.
func TestObservedPullTakesNoForeignPin(t *testing.T) {
	t.Parallel()
	for _, images := range []string{"use_local_image_pull = false", "use_local_image_pull = true"} {
		t.Run(images, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.CRIImages(images))
			ref := nodetest.Named("app:1")
			n.Push("app:1", nodetest.Image(1))
			n.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\nnamespaces = [\"dev\"]\nmode = \"Observe\"\n")
			n.MustPull(ref, node.Pod("prod", "pod"))
			img, _ := n.Record(ref)
			img.Labels["io.cri-containerd.pinned"] = "pinned"
			_, err := n.Client.ImageService().Update(namespaces.WithNamespace(t.Context(), "k8s.io"), img, "labels.io.cri-containerd.pinned")
			n.Must(err)
			nodetest.Eventually(t, "it is pinned", func() bool { return shows(n, ref, true) })
			n.MustPull(ref, node.Pod("dev", "pod"))
			time.Sleep(2 * time.Second) // what was observed is recorded after the answer
			wantPinned(n, ref)
		})
	}
}
