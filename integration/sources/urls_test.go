// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// foreign is an HTTP server that is no registry, and an image that says its
// last layer is there.
type foreign struct {
	v1.Image
	host  string
	layer string // its digest
	asked atomic.Int32
}

// someLayer returns a layer and its bytes.
func someLayer(t *testing.T, seed int64) (layer v1.Layer, data []byte) {
	t.Helper()
	layer = nodetest.Layer(t, seed)
	r, err := layer.Compressed()
	if err == nil {
		data, err = io.ReadAll(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return layer, data
}

func newForeign(t *testing.T, seed int64, moreURLs ...string) *foreign {
	t.Helper()
	layer, data := someLayer(t, seed+100)
	digest, err := layer.Digest()
	if err != nil {
		t.Fatal(err)
	}
	f := &foreign{layer: digest.String()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f.asked.Add(1)
		_, _ = w.Write(data)
	}))
	t.Cleanup(server.Close)
	f.host = strings.TrimPrefix(server.URL, "http://")
	f.Image = nodetest.WithLayerAt(t, nodetest.Image(seed), layer, append([]string{server.URL + "/layer"}, moreURLs...)...)
	return f
}

// TestURLs has layers that say themselves where they are. containerd asks there
// before it asks a registry; the record says so, and a list of sources keeps it
// from that.
func TestURLs(t *testing.T) {
	t.Parallel()
	a := newAllowing(t)
	origin := a.Registry.Host()
	ref := nodetest.Named("app:1")

	f := newForeign(t, 1)
	a.both("app:1", f)
	a.MustPull(ref)
	nodetest.Want(t, "requests to the foreign host", f.asked.Swap(0), 1)
	a.wantSources("without a list", ref, a.mirror.Host()+"/app:1", a.mirror.Host()+","+f.host)

	// The list that allows the registries does not allow that host, and the
	// bytes are compared with those of a registry.
	a.allow(a.mirror.Host(), origin)
	got, reason := a.outcome()
	nodetest.Want(t, "outcome", got+" "+reason, "Pulled source")
	nodetest.Want(t, "requests to the foreign host", f.asked.Load(), 0)
	nodetest.Eventually(t, "the source is the mirror", func() bool { return a.Labels(ref)["content-sources"] == "" })

	// Nor does a pull ask there.
	second := newForeign(t, 2)
	a.both("app:2", second)
	a.MustPull(nodetest.Named("app:2"))
	nodetest.Want(t, "requests to the foreign host", second.asked.Load(), 0)
	a.wantSources("with a list", nodetest.Named("app:2"), a.mirror.Host()+"/app:2", "")

	// An error says that they were not followed.
	fourth := newForeign(t, 4)
	a.both("app:4", fourth)
	for _, r := range []*resolvertest.Registry{a.Registry, a.mirror} {
		r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			if strings.HasSuffix(req.URL.Path, fourth.layer) {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			next.ServeHTTP(w, req)
		})
	}
	a.MustFail(nodetest.Named("app:4"), []string{"not_found", "(rule 10.toml#1) leaves out " + fourth.host})

	// A list by which the foreign host alone serves content lets nobody be asked.
	a.allow(second.host)
	a.MustFail(nodetest.Named("app:2"), []string{second.host, origin})
	nodetest.Want(t, "requests to the foreign host", second.asked.Load(), 0)

	// Clients of the transfer service follow urls, and the record says so.
	third := newForeign(t, 3)
	a.both("free:3", third)
	a.Transfer(nodetest.Named("free:3"))
	nodetest.Want(t, "requests to the foreign host", third.asked.Load(), 1)
	nodetest.Want(t, "content-sources of a client's pull", a.Labels(nodetest.Named("free:3"))["content-sources"], a.mirror.Host()+","+third.host)
}
