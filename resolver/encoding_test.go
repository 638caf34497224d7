// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"

	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// encoding answers as next does, encoded where the client takes that, or always.
func encoding(next http.HandlerFunc, always bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !always && !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") || r.Method == http.MethodHead {
			next(w, r)
			return
		}
		var plain buffer
		next(&plain, r)
		for k, v := range plain.Header() {
			w.Header()[k] = v
		}
		w.Header().Del("Content-Length")
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(plain.status())
		z := gzip.NewWriter(w)
		_, _ = z.Write(plain.Bytes())
		_ = z.Close()
	}
}

// A host that encodes what its clients take is asked for content as it is, whatever a hosts.toml
// says. Nobody decodes what comes encoded all the same.
func TestEncodedAnswersToChecks(t *testing.T) {
	for always, class := range map[bool]failure.Class{false: failure.None, true: failure.Invalid} {
		for what, query := range map[string]Query{"a manifest": {ReadManifest: true}, "a token": {Credentials: alice}} {
			t.Run(fmt.Sprintf("%s, always: %v", what, always), func(t *testing.T) {
				g := newGuarded(t)
				g.tokens = encoding(g.hand, always)
				url := g.server.URL
				if query.ReadManifest {
					server, _ := serve(t, encoding(serveManifest, always))
					url = server.URL
				}
				toml := fmt.Sprintf("server = %q\n[host.%[1]q]\n[host.%[1]q.header]\naccept-encoding = \"gzip\"\n", url)
				s := open(t, Options{HostDirs: []string{hostsDir(t, toml)}}, query)
				_, err := s.Resolve(t.Context(), plenty)
				if class == failure.None {
					if err != nil {
						t.Fatal(err)
					}
				} else if e := wantClass(t, err, class); !strings.Contains(e.Error(), "which nobody asked for") {
					t.Errorf("%q does not say why", e)
				}
			})
		}
	}
}

// An answer that says that its content is encoded is refused, whatever it calls that.
func TestEncodingsOfContent(t *testing.T) {
	for name, test := range map[string]struct {
		header []string
		class  failure.Class
		says   string
	}{
		"empty":          {[]string{"", ""}, failure.None, ""},
		"none":           {[]string{"Identity", "identity"}, failure.None, ""},
		"none in a list": {[]string{"identity, ,identity", ""}, failure.None, ""},
		"one":            {[]string{"Deflate"}, failure.Invalid, "Content-Encoding deflate, which nobody asked for"},
		"none, and one":  {[]string{"identity", "identity,zstd"}, failure.Invalid, "Content-Encoding zstd, which nobody asked for"},
		"many":           {[]string{strings.Repeat("gzip, ", 4096)}, failure.Invalid, "Content-Encoding gzip, which nobody asked for"},
		"its own":        {[]string{"summer2024"}, failure.Invalid, "Content-Encoding of no known name, which nobody asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			list, hosts := registries(t, 1)
			p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
			source, err := p.pull(t, func() {
				list[0].Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
					w.Header()["Content-Encoding"] = test.header
					next.ServeHTTP(w, req)
				})
			})
			if test.class == failure.None {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if e := wantClass(t, source.Failure(err), test.class); !strings.Contains(e.Error(), test.says) {
				t.Errorf("%q does not say %s", e, test.says)
			}
		})
	}
}
