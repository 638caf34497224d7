// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestURLThatServesTheRest has a host that a layer names itself give nothing at first, so that a
// registry begins with the layer, and the rest once the registry has broken off.
func TestURLThatServesTheRest(t *testing.T) {
	t.Parallel()
	a := newAllowing(t)
	ref := nodetest.Named("app:1")

	layer, data := someLayer(t, 101)
	digest, err := layer.Digest()
	a.Must(err)

	var broken, gave atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		from, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(req.Header.Get("Range"), "bytes="), "-"))
		if !broken.Load() || err != nil || from == 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		gave.Store(true)
		w.Header().Set("Content-Range", "bytes "+strconv.Itoa(from)+"-"+strconv.Itoa(len(data)-1)+"/"+strconv.Itoa(len(data)))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(data[from:])
	}))
	t.Cleanup(server.Close)
	elsewhere := strings.TrimPrefix(server.URL, "http://")

	img := nodetest.WithLayerAt(t, nodetest.Image(1), layer, server.URL+"/layer")
	a.both("app:1", img)
	for _, reg := range []*resolvertest.Registry{a.Registry, a.mirror} {
		reg.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			if req.Method != http.MethodGet || !strings.HasSuffix(req.URL.Path, digest.String()) || broken.Load() {
				next.ServeHTTP(w, req)
				return
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(data)))
			_, _ = w.Write(data[:len(data)/2])
			_ = http.NewResponseController(w).Flush()
			broken.Store(true)
			panic(http.ErrAbortHandler)
		})
	}
	a.MustPull(ref)
	nodetest.Want(t, "the url gave the rest", gave.Load(), true)
	a.wantSources("without a list", ref, a.mirror.Host()+"/app:1", a.mirror.Host()+","+elsewhere)

	a.allow(a.mirror.Host(), a.Registry.Host())
	got, reason := a.outcome()
	nodetest.Want(t, "outcome under allowed_sources without the url's host", got+" "+reason, "Pulled source")
}
