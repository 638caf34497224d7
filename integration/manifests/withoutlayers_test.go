// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// bob has good credentials, and has proved nothing.
func bob() node.PullOption { return node.Credentials("bob", "Pa55-of-bob-0123456789") }

// layersOf are the layers of the image of a seed.
func layersOf(n *nodetest.Node, seed int64) (all []digest.Digest) {
	n.T.Helper()
	layers, err := resolvertest.Image(seed, 2, 500).Layers()
	n.Must(err)
	for _, l := range layers {
		d, err := l.Digest()
		n.Must(err)
		all = append(all, digest.Digest(d.String()))
	}
	return all
}

// refuseBlobs has a registry refuse blobs.
func refuseBlobs(r *resolvertest.Registry, code int, blobs ...digest.Digest) (undo func()) {
	return r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if strings.Contains(req.URL.Path, "/blobs/") && slices.Contains(blobs, digest.Digest(path.Base(req.URL.Path))) {
			w.WriteHeader(code)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// loseLayers removes all snapshots of the node, and the files of layers.
func loseLayers(n *nodetest.Node, layers ...digest.Digest) {
	n.T.Helper()
	ctx := namespaces.WithNamespace(n.T.Context(), "k8s.io")
	for {
		var names []string
		n.Must(n.Client.SnapshotService("").Walk(ctx, func(_ context.Context, s snapshots.Info) error {
			names = append(names, s.Name)
			return nil
		}))
		if len(names) == 0 {
			break
		}
		for _, name := range names {
			_ = n.Client.SnapshotService("").Remove(ctx, name) // the parents are removed in the next round
		}
	}
	for _, l := range layers {
		n.Must(os.Remove(n.Path("root", "io.containerd.content.v1.content", "blobs", "sha256", l.Encoded())))
	}
}

// TestQuarantineOfAnImageWithoutLayers is TestQuarantineTellsNothing for an image whose documents
// are on the node, and whose layers and snapshots are not: containerd pulls it, and would find in
// its own documents what to ask for.
func TestQuarantineOfAnImageWithoutLayers(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	seed := int64(7700)
	for _, blobs := range []int{200, 403, 404} {
		for _, what := range []string{"index", "image"} {
			refused := func(repository string, here bool) string {
				seed++ // what is on the node by another name is not asked for
				var pushed resolvertest.Pushable = resolvertest.Image(seed, 2, 500)
				refused := []digest.Digest{}
				if what == "index" {
					pushed = resolvertest.Index(seed, 2, 500)
					refused = append(refused, platformOf(t, seed))
				}
				n.Push(repository+":1", pushed)
				if here {
					n.MustPull(nodetest.Named(repository+":1"), alice())
					loseLayers(n, layersOf(n, seed)...)
				}
				defer quarantine(n.Registry, repository, 403, refused...)()
				if blobs != 200 {
					defer refuseBlobs(n.Registry, blobs, layersOf(n, seed)...)()
				}
				_, err := n.Pull(nodetest.Named(repository+":1"), bob(), node.Hint("policy", "Always"))
				if err == nil {
					t.Errorf("blobs %d, %s, here %v: pulled", blobs, what, here)
				}
				return told(err, repository)
			}
			name := fmt.Sprintf("head/b%d%s", blobs, what)
			if here, gone := refused(name+"here", true), refused(name+"gone", false); here != gone {
				t.Errorf("blobs %d, %s:\nhere: %s\ngone: %s", blobs, what, here, gone)
			}
		}
	}
}

// TestQuarantineForAnotherRuntime is TestQuarantineOfAnImageWithoutLayers by what a tenant can
// choose alone: a runtime class of another snapshotter, on a node that discards layers.
func TestQuarantineForAnotherRuntime(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules, nodetest.NativeRuntime(), nodetest.CRIImages("discard_unpacked_layers = true"))
	const seed = 7800
	layers, ref := layersOf(n, seed), nodetest.Named("head/private:1")
	n.Push("head/private:1", resolvertest.Image(seed, 2, 500))
	n.MustPull(ref, alice())
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	nodetest.Eventually(t, "the layers are discarded", func() bool {
		_, err := n.Client.ContentStore().Info(ctx, layers[0])
		return err != nil
	})
	pull := func() error {
		_, err := n.Pull(ref, bob(), node.RuntimeHandler("native"), node.Hint("policy", "Always"))
		return err
	}
	undo := quarantine(n.Registry, "head/private", 403)
	undoBlobs := refuseBlobs(n.Registry, 403, layers...)
	err := pull()
	if err == nil {
		t.Fatal("pulled")
	}
	for _, l := range layers {
		if strings.Contains(err.Error(), l.String()) {
			t.Errorf("bob, whom the registry refuses the manifest, is told layer %s: %v", l, err)
		}
	}
	undo()
	undoBlobs()
	n.Must(pull()) // the quarantine is over
}

// TestFirstPullOfAMovedTag has a caller who has proved nothing pull an image that is on the node
// by another tag of its repository: the documents come once, and the layers not at all.
func TestFirstPullOfAMovedTag(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	for what, image := range map[string]struct {
		resolvertest.Pushable
		requests string
	}{
		"image": {resolvertest.Image(7900, 2, 500), "HEAD manifests, GET manifests, GET blobs"},
		"index": {resolvertest.Index(7901, 2, 500), "HEAD manifests, GET manifests, GET manifests, GET blobs"}, // the config alone
	} {
		n.Push("head/"+what+":1", image.Pushable)
		n.Push("head/"+what+":2", nodetest.Image(1))
		first, second := nodetest.Named("head/"+what+":1"), nodetest.Named("head/"+what+":2")
		wantPull(n, first, "Pulled absent")
		wantPull(n, second, "Pulled absent")
		n.MustPull(second, bob()) // which brings bob a token
		n.Push("head/"+what+":2", image.Pushable)
		n.Registry.Forget()
		mark := n.Mark()
		n.MustPull(second, bob())
		nodetest.Want(t, what+": outcome", n.Decision(mark, second).Outcome, "Pulled")
		nodetest.Want(t, what+": requests", n.Requests(), image.requests)
		for _, label := range []string{"pull-source", "content-sources", "unknown-sources"} {
			want := strings.Replace(n.Labels(first)[label], ":1", ":2", 1)
			nodetest.Want(t, what+": "+label, n.Labels(second)[label], want)
		}
	}
	n.WantTrueLabels()
}
