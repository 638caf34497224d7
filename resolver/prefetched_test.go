// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// nested returns indexes by their digests, each of which names the one that is made before it
// for this node, and the last one.
func nested(t *testing.T, n int) (all map[digest.Digest][]byte, last digest.Digest) {
	t.Helper()
	all = map[digest.Digest][]byte{}
	platform := platforms.DefaultSpec()
	next := ocispec.Descriptor{Platform: &platform, MediaType: ocispec.MediaTypeImageIndex, Digest: otherDigest, Size: 1}
	for range n {
		data, err := json.Marshal(ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{next}})
		if err != nil {
			t.Fatal(err)
		}
		next.Digest, next.Size = digest.FromBytes(data), int64(len(data))
		all[next.Digest] = data
	}
	return all, next.Digest
}

// Indexes that lead from one to the next are not all prefetched: what is prefetched is in memory.
func TestPrefetchedDocumentsAreBounded(t *testing.T) {
	all, last := nested(t, 3*maxDocuments)
	server, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
		data := all[digest.Digest(path.Base(r.URL.Path))]
		if path.Base(r.URL.Path) == "v1" {
			data = all[last]
		}
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		_, _ = w.Write(data)
	})
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Absent: true})
	got, err := s.Resolve(t.Context(), plenty)
	if err != nil {
		t.Fatal(err)
	}
	ahead, stop := s.Source(got.Descriptor).Prefetching(Prefetch{
		Begin:    func(context.Context, ocispec.Descriptor) (end func(), ok bool) { return func() {}, true },
		Platform: platforms.Default(),
	})
	t.Cleanup(stop)
	if _, err := read(t, ahead, got.Descriptor); err != nil {
		t.Fatal(err)
	}
	ahead.(*source).ahead.running.Wait() // each begins the next before it ends
	if n := len(log.list()) - 1; n != maxDocuments {
		t.Errorf("%d documents are prefetched, want %d", n, maxDocuments)
	}
}

// The rest of a layer that was prefetched is asked for as that of any other: again, where the
// registry is unavailable for a moment.
func TestRestOfPrefetchedLayer(t *testing.T) {
	var asked atomic.Int64
	a := newAhead(t, 2, func(r *resolvertest.Registry) {
		r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			layer := &buffer{}
			next.ServeHTTP(layer, req)
			if !strings.Contains(req.URL.Path, "/blobs/") || layer.Bytes()[0] == '{' {
				next.ServeHTTP(w, req)
				return
			}
			switch asked.Add(1) {
			case 1:
				w.Header().Set("Content-Length", fmt.Sprint(layer.Len()))
				_, _ = w.Write(layer.Bytes()[:firstRead+1])
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			case 2:
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				next.ServeHTTP(w, req)
			}
		})
	})
	layer := a.manifest.Layers[0]
	if got, err := a.fetch(t, layer); err != nil || got != layer.Digest {
		t.Errorf("got %s, %v", got, err)
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}
