// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime"
	"slices"
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
func coldPull(t *testing.T, most int, options ...resolvertest.Option) {
	t.Helper()
	t.Parallel()
	options = append(options, resolvertest.WithTLS(), resolvertest.WithTokenAuth(alice))
	n := nodetest.NewWith(t, resolvertest.New(t, options...), patient)
	used := connections{}
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
		mark := n.Mark()
		n.MustPull(ref, node.Credentials("alice", alice["alice"]))
		nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Pulled")
		asked, opened := used.requests(n)
		nodetest.Want(t, fmt.Sprintf("requests of pull %d", i), asked, image.want)
		if opened > most {
			t.Errorf("pull %d: %d new connections, want at most %d", i, opened, most)
		}
		n.WantRunnable(ref)
		n.Remove(ref)
		most = min(most, 3) // the check's has been made
	}
}

// connections are those over which a registry was asked so far.
type connections map[string]bool

// asked returns the requests that the node's registry got, but for probes, and how many more
// connections they came over. A busy machine leaves a request of a check without an answer for
// a moment, so that it is sent a second time, over a connection of its own: neither counts,
// whichever of the two the registry takes first.
func (c connections) asked(n *nodetest.Node) (all []resolvertest.Request, opened int) {
	begin := map[int]bool{} // those that begin a connection
	for _, r := range n.Registry.Requests() {
		if resolvertest.Probe(r) {
			continue
		}
		begins := !c[r.Connection]
		c[r.Connection] = true
		twin := slices.IndexFunc(all, func(other resolvertest.Request) bool {
			return other.Method == r.Method && other.Path == r.Path && other.Authorized == r.Authorized && other.Connection != r.Connection
		})
		ofCheck := r.Part == resolvertest.Tokens || r.Part == resolvertest.Manifests && !strings.Contains(r.Path, "sha256:")
		if ofCheck && twin >= 0 && (begins || begin[twin]) {
			all[twin].Status = cmp.Or(all[twin].Status, r.Status)
			begin[twin] = begin[twin] && begins
			continue
		}
		begin[len(all)] = begins
		all = append(all, r)
	}
	for _, begins := range begin {
		if begins {
			opened++
		}
	}
	return all, opened
}

// requests returns what the node's registry was asked, as its Requests does, and over how many
// connections that were not there before.
func (c connections) requests(n *nodetest.Node) (list string, opened int) {
	all, opened := c.asked(n)
	names := make([]string, 0, len(all))
	for _, r := range all {
		names = append(names, r.Method+" "+string(r.Part))
	}
	return strings.Join(names, ", "), opened
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
	used := connections{}
	n.Registry.Used(used)
	changed := n.Push("app:1", oneMore(t, resolvertest.Image(1, 8, 1<<10), 2))
	n.Registry.Forget()
	undo := together(t, n.Registry, 2)
	n.MustPull(ref)
	undo()
	nodetest.Want(t, "image", n.Target(ref), changed)
	asked, opened := used.requests(n)
	nodetest.Want(t, "requests", asked, "HEAD manifests, GET manifests, GET blobs, GET blobs")
	nodetest.Want(t, "new connections", opened, 0)

	// Back again: all of it is here.
	n.Push("app:1", resolvertest.Image(1, 9, 1<<10))
	n.Registry.Forget()
	n.MustPull(ref)
	asked, _ = used.requests(n)
	nodetest.Want(t, "requests of the way back", asked, "HEAD manifests")
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
