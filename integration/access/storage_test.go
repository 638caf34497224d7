// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// storage is a service to which a registry sends its clients for content.
type storage struct {
	*resolvertest.Registry

	mu  sync.Mutex
	got []http.Header // of all requests
}

// newStorage starts a storage service that has an image, and has the registry
// redirect to it what is not asked of its token server.
func newStorage(t *testing.T, registry *resolvertest.Registry) *storage {
	t.Helper()
	s := &storage{Registry: resolvertest.New(t)}
	if _, err := s.Push(t.Context(), "private/app:1", nodetest.Image(1)); err != nil {
		t.Fatal(err)
	}
	s.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		s.mu.Lock()
		s.got = append(s.got, r.Header.Clone())
		s.mu.Unlock()
		next.ServeHTTP(w, r)
	})
	s.to(registry, strings.Replace(s.URL(), "127.0.0.1", "localhost", 1))
	return s
}

// to has the registry redirect to the storage service by that URL.
func (s *storage) to(registry *resolvertest.Registry, elsewhere string) {
	registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") && strings.HasPrefix(r.URL.Path, "/v2/private/") {
			http.Redirect(w, r, elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// TestStorageGetsNoCredentials holds that a storage service, to which a registry
// redirects, is shown neither the caller's credentials and tokens nor what the node
// shows the registry by hosts.toml.
func TestStorageGetsNoCredentials(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	s := newStorage(t, g.Registry)
	n.WriteHosts("r.test", fmt.Sprintf("server = %q\nheader = { X-Pass = %q }\n", g.URL(), word))
	n.MustPull("r.test/private/app:1", alice.secret(), node.Hint("policy", "Always"))
	n.MustPull("r.test/private/app:1", alice.secret(), node.Hint("policy", "Always"))
	n.WantRunnable("r.test/private/app:1")
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.got) < 4 {
		t.Errorf("%d requests, want a check and a pull", len(s.got))
	}
	for _, h := range s.got {
		for name, values := range h {
			if name == "Authorization" || name == "X-Pass" {
				t.Errorf("it is shown %s: %q", name, values)
			}
		}
	}
}

// TestStorageThatAsksForCredentials holds that a storage service gets no credentials
// by asking for them, be it as a registry or as a token server, nor what the node shows
// the registry, and that another port of the registry's machine is another host.
func TestStorageThatAsksForCredentials(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	for name, challenge := range map[string]string{
		"basic":  `Basic realm="storage"`,
		"bearer": `Bearer realm="%s/token",service="storage"`,
		"none":   "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := n.In(t)
			g := newGuarded(t, resolvertest.WithTokenAuth, name+".test")
			s := newStorage(t, g.Registry)
			var mu sync.Mutex
			got := ""
			s.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				body, err := io.ReadAll(r.Body)
				mu.Lock()
				got += fmt.Sprintln(r.Method, r.URL, r.Header, string(body), err)
				mu.Unlock()
				switch {
				case r.URL.Path == "/token":
					fmt.Fprint(w, `{"token":"anonymous"}`)
				case challenge != "" && r.Header.Get("Authorization") == "":
					w.Header().Set("WWW-Authenticate", strings.Replace(challenge, "%s", "http://"+r.Host, 1))
					w.WriteHeader(http.StatusUnauthorized)
				default:
					next.ServeHTTP(w, r)
				}
			})
			if challenge == "" {
				s.to(g.Registry, s.URL())
			}
			n.WriteHosts(g.name, fmt.Sprintf("server = %q\nheader = { X-Pass = %q }\n", g.URL(), word))
			_, err := n.Pull(g.name+"/private/app:1", alice.secret(), node.Hint("policy", "Always"))
			nodetest.Want(t, "the pull fails", err != nil, name == "basic")
			mu.Lock()
			defer mu.Unlock()
			basic := base64.StdEncoding.EncodeToString([]byte(alice.user + ":" + alice.password))
			for what, secret := range map[string]string{
				"the user": "username=" + alice.user, "the password": url.QueryEscape(alice.password),
				"user and password": basic, "the header of hosts.toml": word, "a token": "Bearer ey",
			} {
				if strings.Contains(got, secret) {
					t.Errorf("it is shown %s:\n%s", what, got)
				}
			}
			if got == "" {
				t.Error("it was never asked")
			}
		})
	}
}
