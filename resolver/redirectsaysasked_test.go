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

// A registry's relative redirect says in its query for what URL of the registry it is: that is what was asked, and no secret.
func TestRelativeRedirectThatSaysWhatWasAsked(t *testing.T) {
	layer := []byte("layer")
	for name, says := range map[string]func(r *http.Request) string{
		"nothing":        func(*http.Request) string { return "" },
		"the path":       func(r *http.Request) string { return "?from=" + url.QueryEscape(r.URL.Path) },
		"the URL":        func(r *http.Request) string { return "?from=" + url.QueryEscape("http://"+r.Host+r.URL.Path) },
		"the repository": func(r *http.Request) string { return "?from=" + url.QueryEscape("http://"+r.Host+"/v2/team/app") },
	} {
		for observed, observe := range map[string]func(Observation){"": nil, ", observed as in the daemon": func(Observation) {}} {
			t.Run(name+observed, func(t *testing.T) {
				origin, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if strings.HasPrefix(r.URL.Path, "/storage/") {
						_, _ = w.Write(layer)
						return
					}
					w.Header().Set("Location", "/storage/layer"+says(r))
					w.WriteHeader(http.StatusTemporaryRedirect)
				})
				s := open(t, Options{HostDirs: []string{hostsDir(t, chain(origin.URL))}, Observe: observe}, Query{})
				source := s.Source(manifestDesc)
				got, err := read(t, source, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromBytes(layer), Size: int64(len(layer))})
				if err != nil || got != string(layer) {
					t.Errorf("got %q: %v", got, source.Failure(err))
				}
			})
		}
	}
}
