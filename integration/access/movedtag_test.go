// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/platforms"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestContainersBesideATagThatCRICannotRead holds that containers of an image have its files, where a
// tag of another tenant's, which stood for that image, is moved to an index that CRI cannot read: by
// itself it would go on to take the tag for the image, however many pods pull it at once. Where rules are
// enforced, such an index is no image.
func TestContainersBesideATagThatCRICannotRead(t *testing.T) {
	t.Parallel()
	for what, rule := range map[string]string{
		"enforced": "", "observed": "[[rule]]\nimages = [\"a.evil.test/**\"]\nmode = \"Observe\"\n",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Containers(t))
			good, evil := resolvertest.New(t), resolvertest.New(t)
			n.Serve("good.test", good)
			n.Serve("a.evil.test", evil)
			n.WriteRules("10.toml", rule+fmt.Sprintf("[[rule]]\nimages = [\"good.test/**\"]\nallowed_sources = [%q]\n", good.Host()))
			img, err := mutate.AppendLayers(nodetest.Busybox(t, 1, "sleep", "86400"), nodetest.Layer(t, 2))
			n.Must(err)
			bad, err := mutate.AppendLayers(img, nodetest.Layer(t, 66))
			n.Must(err)
			n.PushTo(good, "app:1", img)
			n.PushTo(evil, "app:1", img)
			pod := n.RunPodOf("", resolvertest.New(t))
			id := n.MustPull("good.test/app:1", pod.Pulls())
			n.MustPull("a.evil.test/app:1")
			n.Push("bad:1", bad) // forge takes its layers from here
			f := forge(n, bad)
			nowhere := ocispec.Descriptor{Digest: digest.FromString("nowhere"), Size: 500}
			f.top = f.addIndex(t, f.add(t, manifestOf(n, bad)), ofPlatform(nowhere, "unknown", "unknown"))
			n.Serve("a.evil.test", f.registry(t))
			var pods sync.WaitGroup
			for range 6 {
				pods.Go(func() {
					for range 5 {
						_, _ = n.Pull("a.evil.test/app:1", node.Hint("policy", "IfDigestChanged"))
					}
				})
			}
			pods.Wait()
			n.MustFail("a.evil.test/app:1", nil, node.Hint("policy", "IfDigestChanged"))
			for i := range 2 {
				container, err := pod.Create(fmt.Sprint("app", i), id, "good.test/app:1", nil)
				n.Must(err)
				nodetest.Want(t, "the layers of a container", n.StandsOn(container), nodetest.ChainOf(t, img))
			}
		})
	}
}

// TestContainersBesideATagThatCRICouldRead holds that containers of an image have its files, where another
// tenant's tag stood for that image by an index that CRI could read only while another pull, which has failed
// since, had a document of it on the node. The tag is moved to an index that CRI cannot read.
func TestContainersBesideATagThatCRICouldRead(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Containers(t))
	good := resolvertest.New(t)
	n.Serve("good.test", good)
	n.WriteRules("10.toml", "[[rule]]\nimages = [\"a.evil.test/**\", \"b.evil.test/**\"]\nmode = \"Observe\"\n")
	img, err := mutate.AppendLayers(nodetest.Busybox(t, 1, "sleep", "86400"), nodetest.Layer(t, 2))
	n.Must(err)
	bad, err := mutate.AppendLayers(img, nodetest.Layer(t, 66))
	n.Must(err)
	n.PushTo(good, "app:1", img)
	pod := n.RunPodOf("", resolvertest.New(t))
	id := n.MustPull("good.test/app:1", pod.Pulls())

	f := forge(n, bad)
	config, err := img.RawConfigFile()
	n.Must(err)
	f.served[digest.FromBytes(config)] = config
	manifest := manifestOf(n, bad)
	other := f.add(t, manifest)
	manifest.Annotations = map[string]string{"a": "b"}
	document := f.add(t, manifest) // which no index that is pulled has
	inner := f.addIndex(t, ofPlatform(document, "unknown", "unknown"))
	size := ofPlatform(inner, "unknown", "unknown") // CRI adds up the size of the image by that
	size.MediaType = ocispec.MediaTypeImageIndex
	f.top = f.addIndex(t, f.add(t, manifestOf(n, img)), size)
	n.Serve("a.evil.test", f.registry(t))

	fail := holdAsLayers(t, n, f, img, inner, document)
	nodetest.Eventually(t, "CRI can read the index", func() bool {
		got, err := n.Pull("a.evil.test/app:1")
		return err == nil && got == id
	})
	fail()
	n.CollectGarbage() // which takes the document

	nowhere := ocispec.Descriptor{Digest: digest.FromString("nowhere"), Size: 500}
	moved := &forgery{served: f.served, top: f.addIndex(t, other, ofPlatform(nowhere, "unknown", "unknown"))}
	n.Serve("a.evil.test", moved.registry(t))
	n.MustFail("a.evil.test/app:1", nil)
	container, err := pod.Create("app", id, "good.test/app:1", nil)
	n.Must(err)
	nodetest.Want(t, "the layers of a container", n.StandsOn(container), nodetest.ChainOf(t, img))
}

// holdAsLayers begins a pull of b.evil.test/app:1, whose layers are one that does not come until fail is called, for which
// the unpacking waits, and these documents. That ends the pull.
func holdAsLayers(t *testing.T, n *nodetest.Node, f *forgery, img v1.Image, documents ...ocispec.Descriptor) (fail func()) {
	t.Helper()
	never := digest.FromString("never")
	m := manifestOf(n, img)
	m.Layers = nil
	var diffIDs []digest.Digest
	for _, d := range append([]ocispec.Descriptor{{Digest: never, Size: 500}}, documents...) {
		m.Layers = append(m.Layers, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: d.Digest, Size: d.Size})
		diffIDs = append(diffIDs, digest.FromString(fmt.Sprint(len(diffIDs))))
	}
	config := f.add(t, ocispec.Image{Platform: platforms.DefaultSpec(), RootFS: ocispec.RootFS{Type: "layers", DiffIDs: diffIDs}})
	m.Config.Digest, m.Config.Size = config.Digest, config.Size
	held := &forgery{served: maps.Clone(f.served)}
	held.top = held.add(t, m)
	release := make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	registry := resolvertest.New(t)
	registry.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		if strings.HasSuffix(r.URL.Path, never.String()) {
			<-release
		}
		held.serve(w, r)
	})
	n.Serve("b.evil.test", registry)
	t.Cleanup(end)
	var pull sync.WaitGroup
	pull.Go(func() { _, _ = n.Pull("b.evil.test/app:1") })
	return func() {
		end()
		pull.Wait()
	}
}
