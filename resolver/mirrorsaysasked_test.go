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

// A mirror's relative redirect says the URL that was asked, with the ns by which mirrors are asked. The same content is asked for
// again: in another fetch, or for the rest.
func TestMirrorsRelativeRedirectThatSaysWhatWasAsked(t *testing.T) {
	layer := []byte("layer")
	for name, says := range map[string]func(r *http.Request) string{
		"the path":            func(r *http.Request) string { return "?from=" + url.QueryEscape(r.URL.Path) },
		"the path and ns":     func(r *http.Request) string { return "?from=" + url.QueryEscape(r.RequestURI) },
		"the URL with ns":     func(r *http.Request) string { return "?from=" + url.QueryEscape("http://"+r.Host+r.RequestURI) },
		"the digest after it": func(r *http.Request) string { return "?from=" + url.QueryEscape(r.RequestURI) + "&x=1" },
	} {
		for observed, observe := range map[string]func(Observation){"": nil, ", observed as in the daemon": func(Observation) {}} {
			t.Run(name+observed, func(t *testing.T) {
				mirror, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if strings.HasPrefix(r.URL.Path, "/storage/") {
						_, _ = w.Write(layer)
						return
					}
					w.Header().Set("Location", "/storage/layer"+says(r))
					w.WriteHeader(http.StatusTemporaryRedirect)
				})
				origin, log := serve(t, answerStatus(http.StatusServiceUnavailable))
				s := open(t, Options{HostDirs: []string{hostsDir(t, chain(mirror.URL, origin.URL))}, Observe: observe}, Query{})
				source := s.Source(ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: manifestDigest, Size: int64(len(manifest))})
				for i := range 2 {
					got, err := read(t, source, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromBytes(layer), Size: int64(len(layer))})
					if err != nil || got != string(layer) {
						t.Errorf("fetch %d: got %q: %v; the registry was asked %q", i, got, source.Failure(err), log.list())
					}
				}
			})
		}
	}
}
