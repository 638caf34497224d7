// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// inClear starts a server without TLS that wants credentials, and tells what it was shown.
func inClear(t *testing.T, secret string) (host string, seen *atomic.Value) {
	seen = new(atomic.Value)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 4<<10)
		n, _ := r.Body.Read(body)
		_, basic, _ := r.BasicAuth()
		if strings.Contains(string(body[:n]), secret) || basic == secret {
			seen.Store(fmt.Sprintf("%s %s, TLS: %v", r.Method, r.URL.Path, r.TLS != nil))
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(s.Close)
	return serverHost(s), seen
}

// A registry has TLS, and redirects to another by https:// for which the node has credentials. Whoever
// is on the way answers the TLS handshake by plain HTTP.
func TestCredentialsForElsewhereGoByTLS(t *testing.T) {
	elsewhere, seen := inClear(t, "the-nodes-secret")
	registry := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isProbe(r) {
			return
		}
		w.Header().Set("Location", "https://"+elsewhere+r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	t.Cleanup(registry.Close)
	s := open(t, Options{}, Query{
		Reference: serverHost(registry) + "/team/app:v1", // on loopback, without any hosts.toml
		Credentials: func(host string) (string, string, error) {
			if host == elsewhere {
				return "node", "the-nodes-secret", nil
			}
			return username, password, nil
		},
	})
	_, err := s.Resolve(t.Context(), plenty)
	t.Log(err)
	if what := seen.Load(); what != nil {
		t.Errorf("the node's credentials for https://%s are sent in clear: %v", elsewhere, what)
	}
}

// The same of a caller's password for a token server that the registry names by https://.
func TestPasswordsForTokenServersGoByTLS(t *testing.T) {
	for what, configured := range map[string]bool{"a registry on loopback": false, "a registry of http:// with a setting of TLS": true} {
		t.Run(what, func(t *testing.T) {
			tokens, seen := inClear(t, password)
			registry := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="https://%s/token",service="x"`, tokens))
				w.WriteHeader(http.StatusUnauthorized)
			}))
			t.Cleanup(registry.Close)
			q := Query{Reference: serverHost(registry) + "/team/app:v1", Credentials: func(string) (string, string, error) { return username, password, nil }}
			var o Options
			if configured {
				q.Reference = imageRef
				o.HostDirs = []string{hostsDir(t, fmt.Sprintf("server = \"http://%s\"\nskip_verify = true\n", serverHost(registry)))}
			}
			_, err := open(t, o, q).Resolve(t.Context(), plenty)
			t.Log(err)
			if what := seen.Load(); what != nil {
				t.Errorf("the password for https://%s is sent in clear: %v", tokens, what)
			}
		})
	}
}
