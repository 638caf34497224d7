// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/internal/filestamp"
)

// stableHosts makes a Resolver whose hosts.toml has not changed for a while.
func stableHosts(b *testing.B, hosts string) *Resolver {
	b.Helper()
	root := b.TempDir()
	dir := filepath.Join(root, registryName)
	if err := os.Mkdir(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(hosts), 0o644); err != nil {
		b.Fatal(err)
	}
	r := newResolver(b, Options{HostDirs: []string{root}})
	time.Sleep(filestamp.SettleTime)
	openAt(b, r, Query{}).Close()
	return r
}

// BenchmarkOpen measures the price, for each request for an image, of a change of
// hosts.toml taking effect at once.
func BenchmarkOpen(b *testing.B) {
	r := stableHosts(b, chain("https://mirror.test", "https://registry.test"))
	b.ReportAllocs()
	for b.Loop() {
		s, err := r.Open(b.Context(), Query{Reference: imageRef, Credentials: alice})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

// BenchmarkCheckWarm is a whole check with connection and token at hand, the
// server's part included.
func BenchmarkCheckWarm(b *testing.B) {
	for name, guard := range map[string]bool{"open": false, "token": true} {
		b.Run(name, func(b *testing.B) {
			var server *httptest.Server
			server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/token":
					_, _ = fmt.Fprint(w, `{"access_token":"fine","expires_in":3600}`)
				case guard && r.Header.Get("Authorization") != "Bearer fine":
					w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="x"`, server.URL))
					w.WriteHeader(http.StatusUnauthorized)
				default:
					serveManifest(w, r)
				}
			}))
			defer server.Close()
			r := stableHosts(b, chain(server.URL))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := once(b.Context(), r, Query{Credentials: alice, Known: manifestDigest}, 10*time.Second); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			_ = r.Close()
		})
	}
}
