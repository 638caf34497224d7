// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessBehindRedirect holds that an answer is not open to all because it
// came, after the credentials were shown, from a storage that asks for none.
func TestAccessBehindRedirect(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	storage := resolvertest.New(t)
	s := g.scene(t, n, "private/app")
	byDigest := s.push("1", nodetest.Image(1))
	n.PushTo(storage, "private/app:1", nodetest.Image(1))
	g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		if strings.Contains(r.URL.Path, "/manifests/") && answer.Code == http.StatusOK {
			http.Redirect(w, r, strings.Replace(storage.URL(), "127.0.0.1", "localhost", 1)+r.URL.Path+"?signature=secret", http.StatusTemporaryRedirect)
			return
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
	for _, policy := range []string{"Always", "Always"} {
		s.MustPull(s.ref(":1"), alice.secret(), node.Hint("policy", policy))
		for _, ref := range []string{s.ref(":1"), byDigest} {
			s.wantPull(nobody, "Never", ref, "Failed")
			s.wantPull(bob, "Never", ref, "Failed")
			s.wantPull(alice, "Never", ref, "Present")
		}
	}
}

func TestAccessMoved(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	s.push("2", nodetest.Image(2))
	s.wantPull(bob, "Always", s.ref(":2"), "Pulled")
	s.push("1", nodetest.Image(2))
	img, _ := s.Record(s.ref(":1"))
	two, _ := s.Record(s.ref(":2"))
	img.Target = two.Target
	if _, err := s.Client.ImageService().Update(t.Context(), img, "target"); err != nil {
		t.Fatal(err)
	}
	nodetest.Eventually(t, "CRI knows", func() bool {
		return s.Status(s.ref(":1")).GetImage().GetId() == s.Status(s.ref(":2")).GetImage().GetId()
	})
	s.wantPull(alice, "Never", s.ref(":1"), "Failed")
	s.wantPull(bob, "Always", s.ref(":1"), "Unchanged")
	s.wantPull(alice, "Never", s.ref(":1"), "Failed")
}

// TestAccessOfNamesMadeAnew removes one of the records of an image, as a
// removal does that is cut short.
func TestAccessOfNamesMadeAnew(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	byDigest := s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	if err := s.Client.ImageService().Delete(t.Context(), byDigest); err != nil {
		t.Fatal(err)
	}
	nodetest.Eventually(t, "CRI knows that it is gone", func() bool { return s.Status(byDigest).GetImage() == nil })
	s.wantPull(alice, "Never", s.ref(":1"), "Present")
	nodetest.Want(t, "target of the record that was made anew", s.Target(byDigest), s.Target(s.ref(":1")))
	s.wantPull(nobody, "Never", byDigest, "Failed")
	s.wantPull(bob, "Never", byDigest, "Failed")
	s.wantPull(alice, "Never", byDigest, "Present")
}
