// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessBehindRedirect holds that an answer is not open to all because it
// came, after the credentials were shown, from a storage that asks for none.
func TestAccessBehindRedirect(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(d)
	storage := resolvertest.New(t)
	s := g.scene(t, d, "private/app")
	byDigest := s.push("1", image(1))
	d.push(storage, "private/app:1", image(1))
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
		s.mustPull(s.ref(":1"), alice.secret(), hint("policy", policy))
		for _, ref := range []string{s.ref(":1"), byDigest} {
			_ = s.ask(nobody, "Never", ref, "Failed")
			_ = s.ask(bob, "Never", ref, "Failed")
			_ = s.ask(alice, "Never", ref, "Present")
		}
	}
}

func TestAccessMoved(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(d)
	s := g.scene(t, d, "private/app")
	s.push("1", image(1))
	_ = s.ask(alice, "Always", s.ref(":1"), "Pulled")
	s.push("2", image(2))
	_ = s.ask(bob, "Always", s.ref(":2"), "Pulled")
	s.push("1", image(2))
	img, _ := s.record(s.ref(":1"))
	two, _ := s.record(s.ref(":2"))
	img.Target = two.Target
	if _, err := s.client.ImageService().Update(t.Context(), img, "target"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "CRI knows", func() bool {
		return s.imageStatus(s.ref(":1")).GetImage().GetId() == s.imageStatus(s.ref(":2")).GetImage().GetId()
	})
	_ = s.ask(alice, "Never", s.ref(":1"), "Failed")
	_ = s.ask(bob, "Always", s.ref(":1"), "Unchanged")
	_ = s.ask(alice, "Never", s.ref(":1"), "Failed")
}

// TestAccessOfNamesMadeAnew removes one of the records of an image, as a
// removal does that is cut short.
func TestAccessOfNamesMadeAnew(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(d)
	s := g.scene(t, d, "private/app")
	byDigest := s.push("1", image(1))
	_ = s.ask(alice, "Always", s.ref(":1"), "Pulled")
	if err := s.client.ImageService().Delete(t.Context(), byDigest); err != nil {
		t.Fatal(err)
	}
	eventually(t, "CRI knows that it is gone", func() bool { return s.imageStatus(byDigest).GetImage() == nil })
	_ = s.ask(alice, "Never", s.ref(":1"), "Present")
	want(t, "target of the record that was made anew", s.target(byDigest), s.target(s.ref(":1")))
	_ = s.ask(nobody, "Never", byDigest, "Failed")
	_ = s.ask(bob, "Never", byDigest, "Failed")
	_ = s.ask(alice, "Never", byDigest, "Present")
}
