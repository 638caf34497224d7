// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestToldWhileATagMoves holds that a container tells what is known of its own image while the tag that its pod has asked
// for moves on, and CRI finds the image by another one.
func TestToldWhileATagMoves(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Containers(t))
	img := running(t)
	n.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\nverify_timeout = \"1m\"\n")
	n.Push("app:1", img)
	n.Push("app:2", img)
	pod := n.RunPodOf("", resolvertest.New(t))
	id := n.MustPull(nodetest.Named("app:1"), pod.Pulls())
	n.MustPull(nodetest.Named("app:2"), pod.Pulls())
	d, err := img.Digest()
	n.Must(err)
	n.Push("app:2", longToRead(t, img))
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		n.MustPull(nodetest.Named("app:2"))
	}()
	want := nodetest.ChainOf(t, img)
	for i, moving := 0, true; moving; i++ {
		select {
		case <-moved:
			moving = false
		default:
		}
		container, err := pod.Create(fmt.Sprint("app", i), id, nodetest.Named("app:2"), nil)
		n.Must(err)
		nodetest.Want(t, "the layers of a container", n.StandsOn(container), want)
		nodetest.Want(t, "what a container tells of", n.ContainerStatus(container).GetAnnotations()[node.LabelPrefix+"verified-digest"], d.String())
	}
}
