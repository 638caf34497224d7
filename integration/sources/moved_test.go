// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestContainersWhileAnotherTenantsTagMoves holds that a container has the files of its own image while
// another tenant's tag, which stands for the same image and comes first among its names, is moved. CRI
// looks up by that name what the container runs, and the documents of the new image take it long to read.
func TestContainersWhileAnotherTenantsTagMoves(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Containers(t))
	good, evil := resolvertest.New(t), resolvertest.New(t)
	n.Serve("good.test", good)
	n.Serve("a.test", evil)
	n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"good.test/**\"]\nallowed_sources = [%q]\n\n[[rule]]\nimages = [\"a.test/**\"]\nverify_timeout = \"1m\"\n", good.Host()))
	img := running(t)
	n.PushTo(good, "app:1", img)
	n.PushTo(evil, "app:1", img)
	pod := n.RunPodOf("", resolvertest.New(t))
	id := n.MustPull("good.test/app:1", pod.Pulls())
	n.MustPull("a.test/app:1")
	n.PushTo(evil, "app:1", longToRead(t, img, 15_000))
	want := nodetest.ChainOf(t, img)
	whileItMoves(n, "a.test/app:1", func(name string) {
		container, err := pod.Create(name, id, "good.test/app:1", nil)
		n.Must(err)
		nodetest.Want(t, "the layers of a container", n.StandsOn(container), want)
	})
}

// whileItMoves makes containers, each of a name of its own, one after the other while a pull moves a tag, and one after that.
func whileItMoves(n *nodetest.Node, ref string, create func(name string)) {
	n.T.Helper()
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		n.MustPull(ref)
	}()
	for i, moving := 0, true; moving; i++ {
		select {
		case <-moved:
			moving = false
		default:
		}
		create(fmt.Sprint("app", i))
	}
}

// longToRead is an index of the image with another layer, whose documents have so many annotations.
func longToRead(t *testing.T, img v1.Image, annotations int) v1.ImageIndex {
	t.Helper()
	many := map[string]string{}
	for i := range annotations {
		many[fmt.Sprintf("k%08d", i)] = "0123456"
	}
	other, err := mutate.AppendLayers(img, nodetest.Layer(t, 66))
	if err != nil {
		t.Fatal(err)
	}
	annotated, isImage := mutate.Annotations(other, many).(v1.Image)
	index, isIndex := mutate.Annotations(mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: annotated}), many).(v1.ImageIndex)
	if !isImage || !isIndex {
		t.Fatal("annotations make an image something else")
	}
	return index
}
