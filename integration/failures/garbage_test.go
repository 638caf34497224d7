// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// bigImage has one layer of more than containerd writes down at once.
func bigImage(seed int64) v1.Image { return resolvertest.Image(seed, 1, 3<<20) }

// firstLayer returns the first layer of an image.
func firstLayer(t testing.TB, img v1.Image) v1.Layer {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	return layers[0]
}

func layerSize(t *testing.T, img v1.Image) int64 {
	t.Helper()
	size, err := firstLayer(t, img).Size()
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// onLayer has a registry answer for the first layer of an image.
func onLayer(t *testing.T, r *resolvertest.Registry, img v1.Image, answer http.HandlerFunc) (undo func()) {
	t.Helper()
	d, err := firstLayer(t, img).Digest()
	if err != nil {
		t.Fatal(err)
	}
	return r.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if path.Base(r.URL.Path) != d.String() || r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		answer(w, r)
	})
}

// unfinished returns the unfinished content on a node, with its sizes.
func unfinished(n *nodetest.Node) (refs []string, bytes int64) {
	n.T.Helper()
	all, err := n.Client.ContentStore().ListStatuses(n.T.Context())
	n.Must(err)
	for _, status := range all {
		refs, bytes = append(refs, status.Ref), bytes+status.Offset
	}
	return refs, bytes
}

// TestForeignGarbage has another registry send other bytes for a layer, and
// leave. The pull of the image that has this layer does not build upon them.
func TestForeignGarbage(t *testing.T) {
	t.Parallel()
	for name, pull := range map[string]func(tenants) func(context.Context){
		"by a kubelet": func(ts tenants) func(context.Context) { return ts.byKubelet },
		"by ctr":       func(ts tenants) func(context.Context) { return ts.byCtr },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts := newTenants(t)
			img := bigImage(1)
			leave := ts.attack(img, getStuck, pull(ts))
			nodetest.Eventually(t, "garbage is written", func() bool { _, bytes := unfinished(ts.Node); return bytes >= 1<<20 })
			leave()
			mark := ts.Mark()
			ts.wantSoon("app:1", img)
			nodetest.Want(t, "lines of content that is thrown away", len(ts.LogLines(mark, "thrown away")), 0)
		})
	}
}

// TestGarbageOfMirror has a mirror send other bytes for a layer: to its end or
// another one, or until it goes away or is silent in the middle, so that the origin continues.
// The layer is fetched once more, from the origin.
func TestGarbageOfMirror(t *testing.T) {
	t.Parallel()
	img := bigImage(1)
	size := layerSize(t, img)
	for name, sends := range map[string]struct {
		bytes, of int64
		silent    bool // then
	}{
		"in the middle":      {2 << 20, size, false},
		"until it is silent": {2 << 20, size, true},
		"to the end":         {size, size, false},
		"to a nearer end":    {size - 1, size - 1, false},
		"beyond the end":     {size + 1, size + 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mirror := resolvertest.New(t)
			node := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.CRIImages(`image_pull_progress_timeout = "10s"`))
			node.Serve("registry.test", node.Registry, mirror)
			dgst := node.Push("app:1", img)
			node.PushTo(mirror, "app:1", img)
			onLayer(t, mirror, img, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Range") != "" {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				w.Header().Set("Content-Length", fmt.Sprint(sends.of))
				_, _ = w.Write(make([]byte, sends.bytes))
				_ = http.NewResponseController(w).Flush()
				if sends.silent {
					<-r.Context().Done()
				}
				if sends.bytes < sends.of {
					panic(http.ErrAbortHandler)
				}
			})
			mark := node.Mark()
			ref := nodetest.Named("app:1")
			node.MustPull(ref)
			nodetest.Want(t, "target", node.Target(ref), dgst)
			node.WantRunnable(ref)
			nodetest.Want(t, "lines of content that is thrown away", len(node.LogLines(mark, "thrown away")), 1)
			nodetest.Want(t, "content-sources", node.Labels(ref)["content-sources"], mirror.Host()+","+node.Registry.Host())
		})
	}
}

// TestGarbageTwice has the only registry of an image send other bytes for its
// layer: they are asked for twice, and the failure is invalid. Nothing is left
// of them, so that the next pull is right once the registry is.
func TestGarbageTwice(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	id := n.MustPull(ref)
	img := bigImage(2)
	size := layerSize(t, img)
	n.Push("app:1", img)
	var fetched atomic.Int64
	undo := onLayer(t, n.Registry, img, func(w http.ResponseWriter, r *http.Request) {
		fetched.Add(1)
		_, _ = w.Write(make([]byte, size))
	})
	mark := n.Mark()
	n.MustFail(ref, []string{"digest"})
	nodetest.Want(t, "class", n.Decision(mark, ref).Class, "invalid")
	nodetest.Want(t, "downloads of the layer", fetched.Load(), 2)
	undo()
	refs, _ := unfinished(n)
	nodetest.Want(t, "unfinished content", strings.Join(refs, " "), "")
	if n.MustPull(ref) == id {
		t.Error("the next pull gave the image of before")
	}
}

// TestSharedDownload holds that two images of one registry that have a layer in
// common fetch it once, and that a kill in the middle leaves nothing that the
// next pull waits for.
func TestSharedDownload(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	base := bigImage(1)
	for i, ref := range []string{"one:1", "two:1"} {
		layers, err := nodetest.Image(int64(2 + i)).Layers()
		n.Must(err)
		img, err := mutate.AppendLayers(base, layers...)
		n.Must(err)
		n.Push(ref, img)
	}
	var mu sync.Mutex
	fetched := 0
	undo := onLayer(t, n.Registry, base, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		fetched++
		mu.Unlock()
		getStuck(w, r)
	})
	// One after the other: of pulls that begin together, both may have asked for the layer before
	// one of them waits.
	var pulls sync.WaitGroup
	pulls.Go(func() { _, _ = n.Pull(nodetest.Named("one:1")) })
	nodetest.Eventually(t, "a part of the layer is written", func() bool { _, bytes := unfinished(n); return bytes >= 1<<20 })
	pulls.Go(func() { _, _ = n.Pull(nodetest.Named("two:1")) })
	nodetest.Eventually(t, "both pulls have their manifest", func() bool {
		return n.Registry.Count(func(r resolvertest.Request) bool {
			return r.Method == http.MethodGet && r.Part == resolvertest.Manifests
		}) == 2
	})
	n.Kill()
	pulls.Wait()
	undo()
	mu.Lock()
	nodetest.Want(t, "downloads of the layer", fetched, 1)
	mu.Unlock()
	n.Restart()
	for _, ref := range []string{"one:1", "two:1"} {
		n.MustPull(nodetest.Named(ref))
	}
}
