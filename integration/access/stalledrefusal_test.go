// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestRefusalsWhoseBodiesStall has the token server, or the registry, refuse a caller who had a proof, and
// the rest of its answer not come before verify_timeout: it is a refusal all the same.
func TestRefusalsWhoseBodiesStall(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	for name, what := range map[string]struct {
		path    string
		code    int
		timeout string
	}{
		"token401":        {"/token", 401, "1s"},
		"token403":        {"/token", 403, "1s"},
		"token401long":    {"/token", 401, "4s"},
		"token401default": {"/token", 401, "5s"},
		"manifest403":     {"/manifests/", 403, "1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t, resolvertest.WithTokenAuth, name+".test")
			g.serve(n)
			s := g.scene(t, n, "private/app")
			s.push("1", nodetest.Image(1))
			s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
			s.wantPull(alice, "Never", s.ref(":1"), "Present")
			g.RevokeTokens()
			var asked atomic.Int32
			done := make(chan struct{})
			defer close(done)
			g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodHead && what.path != "/token" {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				if !strings.Contains(r.URL.Path, what.path) {
					next.ServeHTTP(w, r)
					return
				}
				asked.Add(1)
				w.Header().Set("Content-Length", "1000")
				w.WriteHeader(what.code)
				_, _ = w.Write([]byte("x"))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-done:
				case <-r.Context().Done():
				}
			})
			err := s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "Failed", node.Hint("verify-timeout", what.timeout))
			t.Log(asked.Load(), err)
			s.wantPull(alice, "Never", s.ref(":1"), "Failed")
		})
	}
}

// TestImportsAndRefusalsWhoseBodiesStall has a token server refuse credentials in the same way, for an
// image of which nothing is known: a registry has said that they may not have it.
func TestImportsAndRefusalsWhoseBodiesStall(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.Import(s.ref(":1"), nodetest.Image(1))
	done := make(chan struct{})
	defer close(done)
	g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path != "/token" {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("x"))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-done:
		case <-r.Context().Done():
		}
	})
	s.wantPull(wrong, "IfNotPresent", s.ref(":1"), "Failed", node.Hint("verify-timeout", "1s"))
}

// TestRefusalWhoseBodyStallsBesideAMirror is the same under the defaults, where a mirror that hangs takes a
// part of verify_timeout.
func TestRefusalWhoseBodyStallsBesideAMirror(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g, mirror := newGuarded(t, resolvertest.WithTokenAuth, "r.test"), resolvertest.New(t)
	mirror.Status(resolvertest.All, http.StatusNotFound)
	n.Serve("r.test", g.Registry, mirror)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	s.wantPull(alice, "Never", s.ref(":1"), "Present")
	g.RevokeTokens()
	done := make(chan struct{})
	defer close(done)
	hang := func(r *http.Request) {
		select {
		case <-done:
		case <-r.Context().Done():
		}
	}
	mirror.Script(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { hang(r) })
	g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path != "/token" {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte("x"))
		_ = http.NewResponseController(w).Flush()
		hang(r)
	})
	err := s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "Failed")
	t.Log(err)
	s.wantPull(alice, "Never", s.ref(":1"), "Failed")
}
