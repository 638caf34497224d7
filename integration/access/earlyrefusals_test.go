// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestRefusalWhoseBodyStallsForTwoPods has a token server refuse a caller, and the body stall, while a
// pod with more time waits for the same token.
func TestRefusalWhoseBodyStallsForTwoPods(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.push("2", nodetest.Image(2))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	s.wantPull(alice, "Always", s.ref(":2"), "Pulled")
	g.RevokeTokens()
	stalls, asked := stallsIn(t, "/token", http.StatusForbidden), make(chan struct{})
	first := sync.OnceFunc(func() { close(asked) })
	g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path == "/token" {
			first()
		}
		stalls(w, r, next)
	})
	done := make(chan error, 1)
	go func() {
		_, err := s.Pull(s.ref(":2"), alice.secret(), node.Hint("policy", "IfDigestChanged", "verify-timeout", "10s"))
		done <- err
	}()
	<-asked
	s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "Failed", node.Hint("verify-timeout", "1s"))
	if err := <-done; err == nil {
		t.Error("the pod with more time gets the image")
	}
}

// TestRefusalBeforeTheRegistryIsInTrouble has a registry refuse a caller by HEAD, and say nothing any more,
// not why either; a pod of somebody else's with little time has it in trouble.
func TestRefusalBeforeTheRegistryIsInTrouble(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	s.wantPull(alice, "Never", s.ref(":1"), "Present")
	refused := make(chan struct{})
	first := sync.OnceFunc(func() { close(refused) })
	g.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		if r.Method == http.MethodHead && strings.Contains(r.URL.Path, "private/app") {
			w.WriteHeader(http.StatusForbidden)
			first()
			return
		}
		select {
		case <-t.Context().Done():
		case <-r.Context().Done():
		}
	})
	done := make(chan error, 1)
	go func() {
		<-refused
		_, err := s.Pull(strings.Replace(s.ref(":1"), "private/app", "eve/app", 1), node.Hint("policy", "Always", "verify-timeout", "1s"))
		done <- err
	}()
	s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "Failed", node.Hint("verify-timeout", "10s"))
	<-done
	s.wantPull(alice, "Never", s.ref(":1"), "Failed")
}

// TestRefusalWhoseReasonIsElsewhere has a registry refuse a caller by HEAD, itself, and redirect the GET that
// asks for the reason to a storage service, which has none, or by two redirects to a login page.
func TestRefusalWhoseReasonIsElsewhere(t *testing.T) {
	t.Parallel()
	for name, there := range map[string]http.HandlerFunc{
		"storage": http.NotFound,
		"login page": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/login" {
				http.Redirect(w, r, "/login", http.StatusFound)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<html>log in</html>"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Start(t)
			g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
			g.serve(n)
			elsewhere := httptest.NewServer(there)
			t.Cleanup(elsewhere.Close)
			s := g.scene(t, n, "private/app")
			s.push("1", nodetest.Image(1))
			s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
			s.wantPull(alice, "Never", s.ref(":1"), "Present")
			g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				switch {
				case !strings.Contains(r.URL.Path, "/manifests/"):
					next.ServeHTTP(w, r)
				case r.Method == http.MethodHead:
					w.WriteHeader(http.StatusForbidden)
				default:
					http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
				}
			})
			s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "Failed")
			s.wantPull(alice, "Never", s.ref(":1"), "Failed")
		})
	}
}
