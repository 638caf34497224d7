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

// besideObserved is a node with that setting of CRI and these rules, on which dev's pods are observed. It has the image of prod's.
func besideObserved(t *testing.T, images, rules string) (n *nodetest.Node, ref string) {
	t.Helper()
	n, ref = nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.CRIImages(images)), nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.WriteRules("10.toml", nodetest.ObserveDev+rules)
	n.MustPull(ref, node.Pod("prod", "pod"))
	return n, ref
}

// containerd's own pull of an observed pod takes no pin away, unless the tag has moved.
func TestObservedPullTakesNoPin(t *testing.T) {
	for _, images := range []string{"use_local_image_pull = false", "use_local_image_pull = true"} {
		t.Run(images, func(t *testing.T) {
			t.Parallel()
			n, ref := besideObserved(t, images, "[[rule]]\nimages = [\"**\"]\npin = true\n")
			wantPinned(n, ref)
			time.Sleep(4 * time.Second) // the keeper would put it back for a moment
			if _, err := n.Pull(ref, node.Pod("dev", "pod")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second) // what was observed is recorded after the answer
			wantPinned(n, ref)
		})
	}
}

// The pin of an operator stays where an observed pod pulls the same image once more.
func TestObservedPullTakesNoForeignPin(t *testing.T) {
	t.Parallel()
	for _, images := range []string{"use_local_image_pull = false", "use_local_image_pull = true"} {
		t.Run(images, func(t *testing.T) {
			t.Parallel()
			n, ref := besideObserved(t, images, "")
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
