// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A manifest has room for more urls than anybody could compare with each other, and for
// hosts as long as itself.
func TestLayerOfManyURLs(t *testing.T) {
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: 5}
	layer.URLs = []string{"http://" + strings.Repeat("h", 1<<20) + ".test/layer"}
	for i := range 150_000 {
		layer.URLs = append(layer.URLs, fmt.Sprintf("http://h%06d.test/layer", i))
	}
	for what, query := range map[string]Query{
		"with a list of sources": {Allow: func(string) bool { return true }}, "without": {},
	} {
		source := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, query).Source(layer)
		f, err := source.Fetcher(t.Context(), imageRef)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r, err := f.Fetch(t.Context(), layer)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: the fetch takes %v to begin", what, took)
		}
		if query.Allow != nil {
			_, err = r.Read(make([]byte, 1))
			e := wantClass(t, source.Failure(err), failure.NotFound)
			if text := strings.Join(e.LeftOut, ", "); len(e.LeftOut) == 0 || len(text) > 8<<10 {
				t.Errorf("%d bytes name what is left out", len(text))
			}
		}
		_ = r.Close()
	}
}
