// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Everybody may have what was all served to nobody in particular, and the manifest of it at the
// least. A digest alone is no manifest.
func TestOpenToAll(t *testing.T) {
	guardedFor := func(method string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if _, secret, _ := r.BasicAuth(); r.Method == method && secret != password {
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			serveManifest(w, r)
		}
	}
	for what, test := range map[string]struct {
		handler http.HandlerFunc
		query   Query
		header  string // of the node
		fetched bool
		want    bool
	}{
		"digest alone":                       {handler: serveManifest},
		"digest, and a fetch":                {handler: serveManifest, fetched: true, want: true},
		"manifest":                           {handler: serveManifest, query: Query{ReadManifest: true}, want: true},
		"manifest of what is absent":         {handler: serveManifest, query: Query{Absent: true}, want: true},
		"guarded manifest":                   {handler: guardedFor(http.MethodGet), query: Query{ReadManifest: true}},
		"digest, and a fetch that is not":    {handler: guardedFor(http.MethodGet), fetched: true},
		"guarded digest, and a fetch":        {handler: guardedFor(http.MethodHead), fetched: true},
		"manifest, and a header of the node": {handler: serveManifest, query: Query{ReadManifest: true}, header: "header = { X-Pass = \"word\" }\n"},
	} {
		t.Run(what, func(t *testing.T) {
			server, _ := serve(t, test.handler)
			q := test.query
			q.Reference, q.Credentials = imageRef, alice
			s := open(t, Options{HostDirs: []string{hostsDir(t, fmt.Sprintf("[host.%q]\n%s", server.URL, test.header))}}, q)
			found, err := s.Resolve(t.Context(), plenty)
			if err != nil {
				t.Fatal(err)
			}
			if test.fetched {
				fetchManifest(t, s, found.Descriptor)
			}
			s.Close()
			if got := s.OpenToAll(manifestDigest); got != test.want {
				t.Errorf("open to all: %v, want %v", got, test.want)
			}
		})
	}
}

// fetchManifest reads a manifest as a pull does.
func fetchManifest(t *testing.T, s Session, desc ocispec.Descriptor) {
	t.Helper()
	fetcher, err := s.Source(desc).Fetcher(t.Context(), imageRef)
	if err != nil {
		t.Fatal(err)
	}
	rc, err := fetcher.Fetch(t.Context(), desc)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	if _, err := io.ReadAll(rc); err != nil {
		t.Fatal(err)
	}
}
