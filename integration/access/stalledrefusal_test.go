// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// stallsIn begins answers by a status to requests whose path has something, until the test ends.
func stallsIn(t *testing.T, path string, code int) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.Contains(r.URL.Path, path) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(code)
		_, _ = w.Write([]byte("x"))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-t.Context().Done():
		case <-r.Context().Done():
		}
	}
}

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
			stalls := stallsIn(t, what.path, what.code)
			g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodHead && what.path != "/token" {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				stalls(w, r, next)
			})
			s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "Failed", node.Hint("verify-timeout", what.timeout))
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
	g.Script(stallsIn(t, "/token", http.StatusForbidden))
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
	mirror.Hang(resolvertest.All)
	g.Script(stallsIn(t, "/token", http.StatusUnauthorized))
	s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "Failed")
	s.wantPull(alice, "Never", s.ref(":1"), "Failed")
}
