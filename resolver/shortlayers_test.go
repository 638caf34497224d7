// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The rest of layers that a host has ended too early takes a place among the downloads of the
// pull as well.
func TestRestOfShortLayersIsBounded(t *testing.T) {
	const downloads, layers = 3, 12
	list, hosts := registries(t, 1)
	r := list[0]
	if _, err := r.Push(t.Context(), "team/app:v1", resolvertest.Image(1, layers, 1<<10)); err != nil {
		t.Fatal(err)
	}
	var running, most atomic.Int64
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release)
	var manifestLayers atomic.Pointer[map[string]bool]
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		names := manifestLayers.Load()
		if names == nil || !strings.Contains(req.URL.Path, "/blobs/") || !(*names)[req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]] {
			next.ServeHTTP(w, req)
			return
		}
		if req.Header.Get("Range") == "" { // one byte, and a regular end
			answer := &buffer{}
			next.ServeHTTP(answer, req)
			_, _ = w.Write(answer.Bytes()[:1])
			_ = http.NewResponseController(w).Flush()
			return
		}
		n := running.Add(1)
		defer running.Add(-1)
		for {
			was := most.Load()
			if n <= was || most.CompareAndSwap(was, n) {
				break
			}
		}
		<-hold
		next.ServeHTTP(w, req)
	})
	s := open(t, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{Absent: true})
	got, err := s.Resolve(t.Context(), plenty)
	if err != nil {
		t.Fatal(err)
	}
	src := s.Source(got.Descriptor).(*source)
	src.SetResolverOptions(bounds(downloads)...)
	fetcher, err := src.Fetcher(t.Context(), imageRef)
	if err != nil {
		t.Fatal(err)
	}
	a := &ahead{registry: r, source: src, fetcher: fetcher}
	rc, err := fetcher.Fetch(t.Context(), got.Descriptor)
	if err != nil {
		t.Fatal(err)
	}
	if a.manifest, err = decode[ocispec.Manifest](rc); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, l := range a.manifest.Layers {
		names[l.Digest.String()] = true
	}
	manifestLayers.Store(&names)
	var all sync.WaitGroup
	for _, desc := range a.manifest.Layers {
		all.Go(func() {
			if got, err := a.fetch(t, desc); err != nil || got != desc.Digest {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
	deadline := time.Now().Add(5 * time.Second)
	for most.Load() <= downloads && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond)
	release()
	all.Wait()
	if n := most.Load(); n > downloads {
		t.Errorf("%d downloads at a time, want at most %d", n, downloads)
	}
}
