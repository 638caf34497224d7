// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestStorageThatLeadsAstray has a storage service lead back to a place at the registry that wants user name and
// password: that ends no proof, and afterwards the registry is asked as before.
func TestStorageThatLeadsAstray(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, g.URL()+"/console", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(storage.Close)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	s.push("2", nodetest.Image(2))
	console := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path == "/console" {
			w.Header().Set("WWW-Authenticate", `Basic realm="console"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	}
	undo := g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, "/blobs/") && strings.HasPrefix(r.Header.Get("Authorization"), "Bearer") {
			http.Redirect(w, r, storage.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		console(w, r, next)
	})
	s.wantPull(alice, "Always", s.ref(":2"), "Failed")
	s.wantPull(alice, "Never", s.ref(":1"), "Present")
	undo()
	g.Script(console)
	s.wantPull(alice, "Always", s.ref(":2"), "Pulled")
}

// TestStorageThatLeadsHeadToAForbiddenPlace has a storage service lead HEAD back to a place at the registry that
// is forbidden to all. A check fails by that, and no proof ends.
func TestStorageThatLeadsHeadToAForbiddenPlace(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			http.Redirect(w, r, g.URL()+"/console", http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(storage.Close)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	undo := g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch {
		case r.URL.Path == "/console":
			w.WriteHeader(http.StatusForbidden)
		case strings.Contains(r.URL.Path, "/manifests/") && strings.HasPrefix(r.Header.Get("Authorization"), "Bearer"):
			http.Redirect(w, r, storage.URL+r.URL.Path, http.StatusTemporaryRedirect)
		default:
			next.ServeHTTP(w, r)
		}
	})
	s.wantPull(alice, "Always", s.ref(":1"), "Failed")
	undo()
	s.wantPull(alice, "Never", s.ref(":1"), "Present")
}
