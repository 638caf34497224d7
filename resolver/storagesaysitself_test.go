// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A storage service's signed URL says itself, or a beginning of that, as an audience or a resource, and its host redirects by a path.
func TestStorageWhoseURLSaysItself(t *testing.T) {
	layer := []byte("layer")
	for name, says := range map[string]func(host string) string{
		"its host":              func(host string) string { return "http://" + host },
		"a beginning":           func(host string) string { return "http://" + host + "/signed/layer" },
		"all but its query":     func(host string) string { return "http://" + host + "/signed/layer-7f3a of-the-image" },
		"its path is escaped":   func(host string) string { return "http://" + host + "/signed/layer-7f3a%20of" },
		"by https":              func(host string) string { return "https://" + host + "/signed/layer" },
		"nothing of the former": func(string) string { return "x" },
	} {
		t.Run(name, func(t *testing.T) {
			storage, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/storage/") {
					_, _ = w.Write(layer)
					return
				}
				w.Header().Set("Location", "/storage/layer")
				w.WriteHeader(http.StatusTemporaryRedirect)
			})
			origin, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", storage.URL+"/signed/layer-7f3a%20of-the-image?resource="+url.QueryEscape(says(serverHost(storage))))
				w.WriteHeader(http.StatusTemporaryRedirect)
			})
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(origin.URL))}}, Query{})
			source := s.Source(manifestDesc)
			for i := range 2 {
				got, err := read(t, source, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromBytes(layer), Size: int64(len(layer))})
				if err != nil || got != string(layer) {
					t.Errorf("fetch %d: got %q: %v; storage was asked %q", i, got, source.Failure(err), log.list())
				}
			}
		})
	}
}
