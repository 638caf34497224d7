// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// onLayers answers requests for the two layers of an image.
func onLayers(t *testing.T, r *resolvertest.Registry, img v1.Image, answers [2]http.HandlerFunc) {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]http.HandlerFunc{}
	for i, l := range layers {
		d, err := l.Digest()
		if err != nil {
			t.Fatal(err)
		}
		by[d.String()] = answers[i]
	}
	r.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if answer := by[path.Base(r.URL.Path)]; answer != nil {
			answer(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// getStuck serves enough of a layer for containerd to write some of it down.
func getStuck(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", fmt.Sprint(3<<20))
	_, _ = w.Write(make([]byte, 2<<20))
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// impatient starts a node again that ends a pull of which no byte comes for 2 seconds. What
// is to succeed is pulled before.
func impatient(n *nodetest.Node) {
	n.T.Helper()
	n.Restart(nodetest.CRIImages(`image_pull_progress_timeout = "2s"`))
}

// TestNoProgress has containerd end pulls because nothing comes any more: that
// is unreachable, with its fallback, whatever else went wrong.
func TestNoProgress(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]http.HandlerFunc{
		"both layers get stuck": getStuck,
		"one gets no answer":    func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"one is to be tried later": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "25")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			origin, mirror := nodetest.OpenToAll(t), nodetest.OpenToAll(t)
			n := nodetest.Start(t, nodetest.Section(nodetest.IfDigestChanged))
			n.Serve("registry.test", origin, mirror)
			n.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\n[rule.on]\nnot_found = \"Fail\"\nunavailable = \"Fail\"\n")
			ref := nodetest.Named("app:1")
			push := func(img v1.Image) {
				n.PushTo(origin, "app:1", img)
				n.PushTo(mirror, "app:1", img)
			}
			push(nodetest.Image(1))
			id := n.MustPull(ref)
			img := resolvertest.Image(2, 2, 3<<20)
			push(img)
			missing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
			onLayers(t, mirror, img, [2]http.HandlerFunc{missing, missing})
			onLayers(t, origin, img, [2]http.HandlerFunc{getStuck, other})
			impatient(n)
			mark := n.Mark()
			got, err := n.Pull(ref)
			d := n.Decision(mark, ref)
			nodetest.Want(t, "error", err, nil)
			nodetest.Want(t, "image", got, id)
			nodetest.Want(t, "outcome", d.Outcome, "UsedCached")
			nodetest.Want(t, "class", d.Class, "unreachable")
		})
	}
}

// nothingAfterHeaders answers, and sends none of the bytes that it announces.
func nothingAfterHeaders(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", fmt.Sprint(500))
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// TestNothingAfterTheHeaders has a registry answer requests for content, and send
// none: containerd does not see such a download.
func TestNothingAfterTheHeaders(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]resolvertest.Part{"manifest": resolvertest.Manifests, "config and layers": resolvertest.Blobs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Start(t, nodetest.Section(nodetest.IfDigestChanged))
			origin := nodetest.OpenToAll(t)
			n.Serve("registry.test", origin)
			ref := nodetest.Named("app:1")
			n.PushTo(origin, "app:1", nodetest.Image(1))
			id := n.MustPull(ref)
			n.PushTo(origin, "app:1", nodetest.Image(2))
			origin.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/"+string(on)+"/") {
					nothingAfterHeaders(w, r)
					return
				}
				next.ServeHTTP(w, r)
			})
			impatient(n)
			mark := n.Mark()
			got, err := n.Pull(ref)
			d := n.Decision(mark, ref)
			nodetest.Want(t, "error", err, nil)
			nodetest.Want(t, "image", got, id)
			nodetest.Want(t, "outcome", d.Outcome, "UsedCached")
			nodetest.Want(t, "class", d.Class, "unreachable")
		})
	}
}
