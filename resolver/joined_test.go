// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The registry behind a mirror that hangs is asked again after a 503, as that of any fetch is,
// also where the fetch has joined what was prefetched.
func TestJoinedPastAHangingMirror(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []bool{false, true} {
		list, hosts := registries(t, 2)
		mirror, origin := list[0], list[1]
		s := open(t, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{Absent: true})
		got, err := s.Resolve(t.Context(), plenty)
		if err != nil {
			t.Fatal(err)
		}
		mirror.Hang(resolvertest.Blobs)
		var asked atomic.Int64
		origin.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			if strings.Contains(req.URL.Path, "/blobs/") && asked.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			next.ServeHTTP(w, req)
		})
		src, stop := s.Source(got.Descriptor), func() {}
		if prefetch {
			src, stop = src.Prefetching(Prefetch{
				Begin:    func(context.Context, ocispec.Descriptor) (func(), bool) { return func() {}, true },
				Platform: platforms.Default(),
			})
		}
		src.(transfer.ImageResolverOptionSetter).SetResolverOptions(bounds(3)...)
		a := &ahead{registry: origin, source: src}
		if a.fetcher, err = src.Fetcher(t.Context(), imageRef); err != nil {
			t.Fatal(err)
		}
		rc, err := a.fetcher.Fetch(t.Context(), got.Descriptor)
		if err != nil {
			t.Fatal(err)
		}
		if a.manifest, err = decode[ocispec.Manifest](rc); err != nil {
			t.Fatal(err)
		}
		config := a.manifest.Config
		if d, err := a.fetch(t, config); err != nil || d != config.Digest {
			t.Errorf("prefetch %t: %v; the origin was asked %d times", prefetch, err, asked.Load())
		}
		stop()
		_ = mirror.Restore()
	}
}
