// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Everybody may have what was all served to nobody in particular, and the manifest of it at the
// least. A digest alone is no manifest.
func TestOpenToAll(t *testing.T) {
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

// guardedFor serves a manifest for the password, where that method asks for it.
func guardedFor(method string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, secret, _ := r.BasicAuth(); r.Method == method && secret != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		serveManifest(w, r)
	}
}

// Credentials count as shown that were so for anything that was served, in a check or a fetch, be it
// beside the node's; what the node is known by, and a token for everybody, are none.
func TestCredentialsShown(t *testing.T) {
	const header, authorization = "header = { X-Pass = \"word\" }\n", "header = { Authorization = \"Basic bm9kZTp3b3Jk\" }\n"
	tokens := newGuarded(t).server
	start := func(handler http.HandlerFunc) string {
		server, _ := serve(t, handler)
		return server.URL
	}
	public, storage := start(serveManifest), strings.Replace(start(serveManifest), "127.0.0.1", "localhost", 1)
	led := start(func(w http.ResponseWriter, r *http.Request) {
		if _, secret, _ := r.BasicAuth(); r.Method == http.MethodGet && secret != password {
			guardedFor(http.MethodGet)(w, r)
			return
		}
		http.Redirect(w, r, storage+r.URL.Path, http.StatusTemporaryRedirect)
	})
	nobody := func(string) (string, string, error) { return "", "", nil }
	named := start(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(storage, "//", "//store:key@", 1)+r.URL.Path, http.StatusTemporaryRedirect)
	})
	forwards := start(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(tokens.URL, "127.0.0.1", "localhost", 1)+r.URL.Path, http.StatusTemporaryRedirect)
	})
	name := func(string) (string, string, error) { return "alice", "", nil }
	for what, test := range map[string]struct {
		url, header string
		credentials Credentials // nil = alice's
		want        bool
	}{
		"asks for none": {url: public},
		"asks for none, and names a user elsewhere":  {url: named},
		"asks for none, and a token elsewhere":       {url: forwards},
		"is shown a header":                          {url: public, header: header},
		"is shown an Authorization":                  {url: public, header: authorization},
		"wants a header and credentials for HEAD":    {url: start(guardedFor(http.MethodHead)), header: header, want: true},
		"wants a header and credentials for GET":     {url: start(guardedFor(http.MethodGet)), header: header, want: true},
		"wants credentials in place of the node's":   {url: start(guardedFor(http.MethodGet)), header: authorization, want: true},
		"wants them, and redirects":                  {url: led, header: header, want: true},
		"wants a token":                              {url: tokens.URL, header: header, want: true},
		"wants a token, of a user name alone":        {url: tokens.URL, header: header, credentials: name},
		"wants a token, of a caller without secrets": {url: tokens.URL, header: header, credentials: nobody},
	} {
		q := Query{Reference: imageRef, Credentials: alice}
		if test.credentials != nil {
			q.Credentials = test.credentials
		}
		s := open(t, Options{HostDirs: []string{hostsDir(t, fmt.Sprintf("[host.%q]\n%s", test.url, test.header))}}, q)
		found, err := s.Resolve(t.Context(), plenty)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		fetchManifest(t, s, found.Descriptor)
		s.Close()
		if got := s.CredentialsShown(); got != test.want {
			t.Errorf("a host that %s: %v, want %v", what, got, test.want)
		}
		if got, want := s.NodeShown(), test.header != ""; got != want {
			t.Errorf("a host that %s: the node is shown: %v", what, got)
		}
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
