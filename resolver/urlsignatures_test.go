// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A storage service writes by what the manifest's URL was signed into the urls of a layer, of which one
// serves that: the part before a slash is a host.
func TestURLsOfPartsOfSignatures(t *testing.T) {
	GuardURLs()
	for what, allow := range map[string]func(string) bool{"followed": nil, "left out": func(string) bool { return true }} {
		t.Run(what, func(t *testing.T) {
			elsewhere, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") })
			var signature string
			storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				signature = r.URL.Query().Get("sig")
				serveManifest(w, r)
			})
			server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/manifests/") {
					w.Header().Set("Location", storage.URL+"/manifest?sig=summer2024xyzabc%2Fmore")
					w.WriteHeader(http.StatusTemporaryRedirect)
					return
				}
				w.WriteHeader(http.StatusNotFound)
			})
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}, Observe: func(Observation) {}}, Query{Absent: true, Allow: allow})
			got, err := s.Resolve(t.Context(), plenty)
			if err != nil {
				t.Fatal(err)
			}
			source := s.Source(got.Descriptor)
			_, err = read(t, source, ocispec.Descriptor{
				MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("x"), Size: 1,
				URLs: []string{elsewhere.URL + "/layer", "http://" + signature},
			})
			told := fmt.Sprintf("error: %v\nsources: %q", err, source.Served().Hosts)
			if e := source.Failure(err); e != nil {
				told += fmt.Sprintf("\nfailure: %v, left out %q", e, e.LeftOut)
			}
			t.Log(told)
			wantNothingOf(t, "summer2024", told)
		})
	}
}
