// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessOfAMirrorIsNotTheOrigins holds that a proof remembers who gave it:
// the origin's refusal of one caller ends nothing that an open mirror gave to
// all, a refusal by the mirror does, and where the origin's word is wanted the
// mirror's is none.
func TestAccessOfAMirrorIsNotTheOrigins(t *testing.T) {
	t.Parallel()
	m := newOpenMirror(t)
	s := m.scene("private/open/app", 1)
	origin := node.Hint("resolve-from", "Origin")
	s.wantPull(nobody, "IfNotPresent", s.ref(":1"), "Pulled")
	_, by, _ := strings.Cut(s.Labels(s.ref(":1"))["access.anonymous"], " ")
	nodetest.Want(t, "the giver", by, m.mirror.Host())

	s.wantPull(nobody, "Never", s.ref(":1"), "Failed", origin)
	s.wantPull(nobody, "Always", s.ref(":1"), "Failed", origin)
	for _, who := range []caller{nobody, eve, alice} {
		s.wantPull(who, "Never", s.ref(":1"), "Present")
	}
	s.wantPull(alice, "IfNotPresent", s.ref(":1"), "Unchanged", origin)
	s.wantPull(alice, "Never", s.ref(":1"), "Present", origin)

	m.mirror.Status(resolvertest.All, http.StatusForbidden)
	s.wantPull(nobody, "Always", s.ref(":1"), "Failed")
	s.wantPull(nobody, "Never", s.ref(":1"), "Failed")
	s.wantPull(alice, "Never", s.ref(":1"), "Present") // by the origin
}

// TestAccessAndStorageThatRefuses holds that a storage service, to which the
// registry redirects, takes no proof away.
func TestAccessAndStorageThatRefuses(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	storage := resolvertest.New(t)
	storage.Status(resolvertest.All, http.StatusForbidden)
	s := g.scene(t, n, "private/app")
	old := s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	s.push("2", nodetest.Image(2))
	g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, storage.URL()+r.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		next.ServeHTTP(w, r)
	})
	s.wantPull(alice, "Always", s.ref(":2"), "Failed")
	for _, ref := range []string{s.ref(":1"), old} {
		s.wantPull(alice, "Never", ref, "Present")
	}
	g.deny(alice.user, s.repo, true)
	s.wantPull(alice, "Always", s.ref(":2"), "Failed")
	s.wantPull(alice, "Never", s.ref(":1"), "Failed")
}

// TestRefusedCachedDigest holds that a refusal ends proofs as well where the
// registry knows the caller for the tag, and refuses the image that is here.
func TestRefusedCachedDigest(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	old := s.push("1", nodetest.Image(1))
	s.push("2", nodetest.Image(2))
	s.wantPull(bob, "Always", s.ref(":1"), "Pulled")
	s.wantPull(alice, "Always", s.ref(":2"), "Pulled")
	s.push("1", nodetest.Image(3))
	_, digest, _ := strings.Cut(old, "@")
	g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, digest) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	s.wantPull(alice, "IfNotPresent", s.ref(":1"), "Pulled")
	s.wantPull(alice, "Never", s.ref(":1"), "Present")
	s.wantPull(alice, "Never", s.ref(":2"), "Failed")
	s.wantPull(bob, "Never", old, "Present")
}

// TestRefusalByAMirrorAndACallerThatLeaves holds that a mirror's refusal counts
// also where the caller leaves before the registry has answered.
func TestRefusalByAMirrorAndACallerThatLeaves(t *testing.T) {
	t.Parallel()
	m := newOpenMirror(t)
	s := m.scene("private/open/app", 1)
	s.wantPull(nobody, "Always", s.ref(":1"), "Pulled")
	m.mirror.Status(resolvertest.All, http.StatusForbidden)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	m.g.Script(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		leave()
		<-r.Context().Done()
	})
	mark := s.Mark()
	if _, err := s.Node.Node.Pull(ctx, s.ref(":1"), nobody.secret(), node.Hint("policy", "Always")); err == nil {
		t.Error("a pull that was left succeeds")
	}
	nodetest.Eventually(t, "the end of the pull is logged", func() bool { return len(s.Decisions(mark, s.ref(":1"))) == 1 })
	s.wantPull(nobody, "Never", s.ref(":1"), "Failed")
}

// TestRefusalByAnOriginBeforeItsMirror has the registry asked first, and a mirror only
// after it. The registry's refusal ends the caller's proofs also where the mirror then
// lets the caller in, which counts for itself.
func TestRefusalByAnOriginBeforeItsMirror(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "")
	g.name = g.Host()
	mirror := resolvertest.New(t)
	n.WriteHosts(g.name, n.Server(g.Registry)+n.Mirror(g.Registry, "")+n.Mirror(mirror, ""))
	s := g.scene(t, n, "private/app")
	for tag := range 2 {
		s.push(fmt.Sprint(tag), nodetest.Image(int64(tag)))
		s.wantPull(alice, "Always", s.ref(fmt.Sprint(":", tag)), "Pulled")
	}
	n.PushTo(mirror, "private/app:1", nodetest.Image(1))
	g.deny(alice.user, s.repo, true)
	s.wantPull(alice, "Always", s.ref(":1"), "Unchanged")
	s.wantPull(alice, "Never", s.ref(":1"), "Present")
	s.wantPull(alice, "Never", s.ref(":0"), "Failed")
}

// beforeAMirror is a scene in a registry with a mirror behind it, where alice and bob have
// proved access to one image.
func beforeAMirror(t *testing.T, options ...nodetest.Option) (s *scene, mirror *resolvertest.Registry) {
	t.Helper()
	n := nodetest.Start(t, options...)
	g := newGuarded(t, resolvertest.WithTokenAuth, "")
	g.name = g.Host()
	mirror = resolvertest.New(t)
	n.WriteHosts(g.name, n.Server(g.Registry)+n.Mirror(g.Registry, "")+n.Mirror(mirror, ""))
	s = g.scene(t, n, "private/app")
	s.push("0", nodetest.Image(0))
	s.wantPull(alice, "Always", s.ref(":0"), "Pulled")
	s.wantPull(bob, "Always", s.ref(":0"), "Unchanged")
	return s, mirror
}

// TestRefusalOfContentBeforeAMirror holds that a registry's refusal ends the caller's
// proofs also in a pull, where a mirror behind it has the content.
func TestRefusalOfContentBeforeAMirror(t *testing.T) {
	t.Parallel()
	s, mirror := beforeAMirror(t)
	s.push("1", nodetest.Image(1))
	s.PushTo(mirror, "private/app:1", nodetest.Image(1))
	s.g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet && (strings.Contains(r.URL.Path, "/manifests/") || strings.Contains(r.URL.Path, "/blobs/")) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	for _, tag := range []string{":1", ":0"} {
		s.wantPull(alice, "Never", s.ref(tag), "Failed")
	}
	s.wantPull(bob, "Never", s.ref(":0"), "Present")
}
