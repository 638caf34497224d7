// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// The host of a url takes the request and is silent, or stalls in its body, until the pull has no progress:
// the failure names that host, and no registry.
func TestURLsWithoutProgressBlameNoRegistry(t *testing.T) {
	GuardURLs()
	for what, begin := range map[string]func(w http.ResponseWriter){
		"before its answer": func(http.ResponseWriter) {},
		"in its body": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "5")
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
		},
	} {
		t.Run(what, func(t *testing.T) {
			over := make(chan struct{})
			elsewhere, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				begin(w)
				<-over
			})
			e := stallAtURL(t, elsewhere)
			close(over)
			wantBlamed(t, e, elsewhere)
		})
	}
}

// stallAtURL reads a layer that says that it is on a host, and nowhere else, and returns why that fails
// once the pull has had no progress for a while.
func stallAtURL(t *testing.T, elsewhere *httptest.Server) *Error {
	t.Helper()
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	source := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{}).Source(ocispec.Descriptor{})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
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
	return wantClass(t, source.Failure(fmt.Errorf("%w: %w", ErrNoProgress, err)), failure.Unreachable)
}

// wantBlamed holds that a failure names the host of a url, and no registry.
func wantBlamed(t *testing.T, e *Error, elsewhere *httptest.Server) {
	t.Helper()
	if len(e.Attempts) != 1 || !e.URLs || e.Attempts[0].Host != serverHost(elsewhere) {
		t.Errorf("attempts %+v", e.Attempts)
	}
}
