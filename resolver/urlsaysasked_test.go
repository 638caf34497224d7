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

// Where a url of a layer leads, its host says what was asked: by the path (the redirect is refused the next time), or by the URL (the url
// is not even followed the next time, as one with a secret); also where the url has a query, or is escaped.
func TestURLsWhoseRelativeRedirectSaysWhatWasAsked(t *testing.T) {
	GuardURLs()
	layer := []byte("layer")
	for _, path := range []string{"/v2/windows/blobs/" + digest.FromBytes(layer).String(), "/blobs/layer-of-windows?v=2", "/blobs/layer%20of%20windows?v=1%202"} {
		for name, says := range map[string]func(r *http.Request) string{
			"the path":     func(r *http.Request) string { return r.URL.Path },
			"the URI":      func(r *http.Request) string { return r.RequestURI },
			"the URL":      func(r *http.Request) string { return "http://" + r.Host + r.RequestURI },
			"its own path": func(r *http.Request) string { return "http://" + r.Host + r.URL.Path },
		} {
			t.Run(name+" of "+path, func(t *testing.T) {
				cdn, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if strings.HasPrefix(r.URL.Path, "/storage/") {
						_, _ = w.Write(layer)
						return
					}
					w.Header().Set("Location", "/storage/layer?from="+url.QueryEscape(says(r)))
					w.WriteHeader(http.StatusTemporaryRedirect)
				})
				origin, _ := serve(t, answerStatus(http.StatusNotFound))
				s := open(t, Options{HostDirs: []string{hostsDir(t, chain(origin.URL))}}, Query{})
				source := s.Source(manifestDesc)
				for i := range 2 {
					desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromBytes(layer), Size: int64(len(layer))}
					desc.URLs = []string{cdn.URL + path}
					got, err := read(t, source, desc)
					if err != nil || got != string(layer) {
						t.Errorf("fetch %d: got %q: %v; the CDN was asked %q", i, got, source.Failure(err), log.list())
					}
				}
			})
		}
	}
}
