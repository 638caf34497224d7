// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// The host of a url answers with an error of which the body stalls, until the pull has no progress: the
// failure names that host, and no registry.
func TestURLsWhoseErrorsStallBlameNoRegistry(t *testing.T) {
	GuardURLs()
	for _, status := range []int{404, 500, 307} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			over := make(chan struct{})
			elsewhere, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
				w.Header().Set("Location", "/other")
				w.WriteHeader(status)
				_, _ = w.Write([]byte("x"))
				_ = http.NewResponseController(w).Flush()
				<-over
			})
			server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
			source := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{}).Source(ocispec.Descriptor{})
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(200*time.Millisecond, cancel)
			f, err := source.Fetcher(ctx, "")
			if err != nil {
				t.Fatal(err)
			}
			rc, err := f.Fetch(ctx, ocispec.Descriptor{
				MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: 5, URLs: []string{elsewhere.URL + "/layer"},
			})
			if err == nil {
				buf := make([]byte, 8)
				for err == nil {
					_, err = rc.Read(buf)
				}
				_ = rc.Close()
			}
			close(over)
			e := wantClass(t, source.Failure(fmt.Errorf("%w: %w", ErrNoProgress, err)), failure.Unreachable)
			if len(e.Attempts) != 1 || !e.Attempts[0].URL || e.Attempts[0].Host != serverHost(elsewhere) {
				t.Errorf("attempts %+v", e.Attempts)
			}
		})
	}
}
