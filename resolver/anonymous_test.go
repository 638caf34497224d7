// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An answer to a header or a certificate of the node is not one to anybody.
func TestNotAnonymous(t *testing.T) {
	server, _ := serve(t, serveManifest)
	for what, test := range map[string]struct {
		options Options
		want    bool
	}{
		"nothing": {Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, true},
		"header of hosts.toml": {
			Options{HostDirs: []string{hostsDir(t, fmt.Sprintf("[host.%q]\nheader = { X-Pass = \"word\" }\n", server.URL))}}, false,
		},
		"header of CRI": {Options{HostDirs: []string{hostsDir(t, chain(server.URL))}, Headers: http.Header{"Cookie": {"word"}}}, false},
	} {
		s := open(t, test.options, Query{Reference: imageRef, Credentials: alice})
		got, err := s.Resolve(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if got.Anonymous != test.want || got.ByNode == test.want {
			t.Errorf("%s: anonymous is %v, by the node %v", what, got.Anonymous, got.ByNode)
		}
	}
}

// Only an answer for which nobody had to say who he is would have been given to
// anybody.
func TestAnonymous(t *testing.T) {
	g := newGuarded(t)
	public, _ := serve(t, serveManifest)
	basic := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if _, secret, _ := r.BasicAuth(); secret != password {
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next(w, r)
		}
	}
	// net/http does not send credentials on to another host.
	elsewhere := strings.Replace(public.URL, "127.0.0.1", "localhost", 1)
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere+r.URL.Path+"?signature=x", http.StatusTemporaryRedirect)
	}
	start := func(handler http.HandlerFunc) *httptest.Server {
		server, _ := serve(t, handler)
		return server
	}
	for what, test := range map[string]struct {
		urls []string
		want bool
	}{
		"public":                            {[]string{public.URL}, true},
		"public, elsewhere":                 {[]string{start(redirect).URL}, true},
		"token":                             {[]string{g.server.URL}, false},
		"password":                          {[]string{start(basic(serveManifest)).URL}, false},
		"password, elsewhere":               {[]string{start(basic(redirect)).URL}, false},
		"public after a mirror that failed": {[]string{start(basic(answerStatus(http.StatusNotFound))).URL, public.URL}, true},
		"password after a mirror":           {[]string{start(answerStatus(http.StatusNotFound)).URL, g.server.URL}, false},
	} {
		t.Run(what, func(t *testing.T) {
			for _, ref := range []string{imageRef, registryName + "/team/app@" + manifestDigest.String()} {
				got, err := resolve(t, Query{Reference: ref, Credentials: alice}, test.urls...)
				if err != nil {
					t.Fatal(err)
				}
				if got.Anonymous != test.want {
					t.Errorf("%s: got %v, want %v", ref, got.Anonymous, test.want)
				}
			}
		})
	}
}
