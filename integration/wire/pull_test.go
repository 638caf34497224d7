// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// alice is the only user of the registries here.
var alice = map[string]string{"alice": "secret of alice"}

// coldPull holds what a registry with TLS and tokens is asked for in a cold pull, and
// over how many connections at most.
func coldPull(t *testing.T, connections int, options ...resolvertest.Option) {
	t.Helper()
	t.Parallel()
	options = append(options, resolvertest.WithTLS(), resolvertest.WithTokenAuth(alice))
	n := nodetest.NewWith(t, resolvertest.New(t, options...), patient)
	for i, image := range []struct {
		what resolvertest.Pushable
		want string
	}{
		{resolvertest.Image(1, 1, 64<<10), "GET manifests, POST tokens, GET manifests, GET blobs, GET blobs"},
		{resolvertest.Image(2, 10, 1<<10), "GET manifests" + strings.Repeat(", GET blobs", 11)},
		{resolvertest.Index(3, 2, 1<<10, "linux/s390x", "linux/"+runtime.GOARCH), "GET manifests, GET manifests, GET blobs, GET blobs, GET blobs"},
	} {
		n.Push("app:1", image.what)
		ref := nodetest.Named("app:1")
		n.Registry.Forget()
		before := n.Registry.Connections()
		mark := n.Mark()
		n.MustPull(ref, node.Credentials("alice", alice["alice"]))
		nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Pulled")
		nodetest.Want(t, fmt.Sprintf("requests of pull %d", i), requests(n), image.want)
		if opened := n.Registry.Connections() - before; opened > connections {
			t.Errorf("pull %d: %d new connections, want at most %d", i, opened, connections)
		}
		n.WantRunnable(ref)
		n.Remove(ref)
		connections = min(connections, 3) // the check's has been made
	}
}

// requests returns what the node's registry was asked, as its Requests does. A request of a
// check that a busy machine has left without an answer for a second is sent twice: it counts
// once.
func requests(n *nodetest.Node) string {
	var all []string
	last := ""
	for _, r := range n.Registry.Requests() {
		what := r.Method + " " + r.Path
		if what != last && resolvertest.NoProbe(r) {
			all = append(all, r.Method+" "+string(r.Part))
		}
		last = what
	}
	return strings.Join(all, ", ")
}

// TestColdPull holds that a pull asks for what the wire needs, and for nothing twice.
func TestColdPull(t *testing.T) { coldPull(t, 1) }

// TestColdPullByHTTP1 is the same without HTTP/2.
func TestColdPullByHTTP1(t *testing.T) { coldPull(t, 4, resolvertest.WithoutHTTP2()) }

// TestConfigAndLayersTogether holds that the config and the first layers are asked for before
// any of them has been answered.
func TestConfigAndLayersTogether(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, patient)
	for name, want := range map[string]int{"app:1": 3, "index:1": 3, "small:1": 2} {
		switch name {
		case "app:1":
			n.Push(name, resolvertest.Image(1, 5, 1<<10))
		case "index:1":
			n.Push(name, resolvertest.Index(2, 5, 1<<10))
		default:
			n.Push(name, resolvertest.Image(3, 1, 1<<10))
		}
		undo := together(t, n.Registry, want)
		n.MustPull(nodetest.Named(name))
		undo()
		n.WantRunnable(nodetest.Named(name))
	}
}

// together has the registry answer no blob before that many were asked for.
func together(t *testing.T, r *resolvertest.Registry, want int) (undo func()) {
	t.Helper()
	var mu sync.Mutex
	asked, all := 0, make(chan struct{})
	return r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if !strings.Contains(req.URL.Path, "/blobs/") {
			next.ServeHTTP(w, req)
			return
		}
		mu.Lock()
		if asked++; asked == want {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
		case <-time.After(20 * time.Second):
			t.Errorf("%d blobs were asked for together, want %d", asked, want)
		case <-req.Context().Done():
		}
		next.ServeHTTP(w, req)
	})
}

// TestChangeOfOneLayer holds that a change costs the manifest, the config and the layer that is
// another one, the last two together, on the connection of the check.
func TestChangeOfOneLayer(t *testing.T) {
	t.Parallel()
	n := nodetest.NewWith(t, resolvertest.New(t, resolvertest.WithTLS()), patient)
	ref := nodetest.Named("app:1")
	n.Push("app:1", resolvertest.Image(1, 9, 1<<10))
	n.MustPull(ref)
	changed := n.Push("app:1", oneMore(t, resolvertest.Image(1, 8, 1<<10), 2))
	n.Registry.Forget()
	before := n.Registry.Connections()
	undo := together(t, n.Registry, 2)
	n.MustPull(ref)
	undo()
	nodetest.Want(t, "image", n.Target(ref), changed)
	nodetest.Want(t, "requests", requests(n), "HEAD manifests, GET manifests, GET blobs, GET blobs")
	nodetest.Want(t, "new connections", n.Registry.Connections()-before, 0)

	// Back again: all of it is here.
	n.Push("app:1", resolvertest.Image(1, 9, 1<<10))
	n.Registry.Forget()
	n.MustPull(ref)
	nodetest.Want(t, "requests of the way back", requests(n), "HEAD manifests")
	n.WantRunnable(ref)
}

// oneMore returns the image with another layer on top.
func oneMore(t *testing.T, img v1.Image, seed int64) v1.Image {
	t.Helper()
	more, err := resolvertest.Image(seed, 1, 1<<10).Layers()
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.AppendLayers(img, more...)
	if err != nil {
		t.Fatal(err)
	}
	return img
}
