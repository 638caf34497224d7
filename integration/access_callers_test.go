// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessByIdentityToken holds that a token that stands for a user is a
// caller like any other.
func TestAccessByIdentityToken(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(d)
	const identity = "the identity token of alice"
	g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPost && r.URL.Path == "/token" && r.ParseForm() == nil && r.PostForm.Get("refresh_token") == identity {
			basic := r.Clone(r.Context())
			basic.Method, basic.URL = http.MethodGet, &url.URL{Path: "/token", RawQuery: url.Values{"scope": r.PostForm["scope"]}.Encode()}
			basic.SetBasicAuth(alice.user, alice.password)
			r = basic
		}
		next.ServeHTTP(w, r)
	})
	s := g.scene(t, d, "private/app")
	s.push("1", image(1))
	ref := s.ref(":1")
	token := func(t string) pullOption { return auth(&runtimeapi.AuthConfig{IdentityToken: t}) }
	_ = s.ask(nobody, "IfNotPresent", ref, "Failed", token("not the identity token of alice"))
	_ = s.ask(nobody, "IfNotPresent", ref, "Pulled", token(identity))
	_ = s.ask(nobody, "Never", ref, "Present", token(identity))
	_ = s.ask(nobody, "Never", ref, "Present", auth(&runtimeapi.AuthConfig{Auth: base64.StdEncoding.EncodeToString([]byte(":" + identity))}))
	_ = s.ask(nobody, "Never", ref, "Failed", token("not the identity token of alice"))
	_ = s.ask(nobody, "Never", ref, "Failed", token(identity+"x"))
	_ = s.ask(tenant{"x", identity}, "Never", ref, "Failed")
	_ = s.ask(tenant{identity, "x"}, "Never", ref, "Failed")
	_ = s.ask(nobody, "Never", ref, "Failed")
	_ = s.ask(alice, "Never", ref, "Failed") // another secret, though the same user
	_ = s.ask(alice, "IfNotPresent", ref, "Unchanged")
}

// TestAccessOfCredentialsForElsewhere holds that credentials are not shown to
// hosts that they are not for, and that what cannot be read proves nothing.
func TestAccessOfCredentialsForElsewhere(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(d)
	s := g.scene(t, d, "private/app")
	s.push("1", image(1))
	ref := s.ref(":1")
	of := func(who tenant, server string) pullOption {
		return auth(&runtimeapi.AuthConfig{Username: who.user, Password: who.password, ServerAddress: server})
	}
	broken := []pullOption{
		auth(&runtimeapi.AuthConfig{Auth: "not base64"}),
		auth(&runtimeapi.AuthConfig{Auth: base64.StdEncoding.EncodeToString([]byte("no colon"))}),
		auth(&runtimeapi.AuthConfig{Username: alice.user, Password: alice.password, ServerAddress: "https://r.test:port"}),
	}
	_ = s.ask(nobody, "Always", ref, "Failed", of(alice, "https://elsewhere.test"))
	_ = s.ask(nobody, "Always", ref, "Pulled", of(alice, "https://"+g.Host()))
	for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
		for _, opt := range broken {
			if _, err := s.pull(ref, opt, hint("policy", policy)); err == nil && (policy == "Always" || policy == "IfDigestChanged") {
				t.Errorf("credentials that cannot be read pass by %s", policy)
			}
		}
		_ = s.ask(nobody, policy, ref, "Failed", of(bob, "https://elsewhere.test"))
		_ = s.ask(nobody, policy, ref, "Failed", of(wrong, "https://"+g.Host()))
	}
	for _, opt := range broken[:2] {
		_ = s.ask(nobody, "Never", ref, "Failed", opt)
	}
	_ = s.ask(alice, "IfNotPresent", ref, "~")
	_ = s.ask(alice, "Never", ref, "Present")
	_ = s.ask(nobody, "Never", ref, "Present", of(alice, "https://elsewhere.test")) // who knows them may have it
}

// TestAccessWithLocalPull holds that access is kept where CRI pulls by itself.
func TestAccessWithLocalPull(t *testing.T) {
	t.Parallel()
	d := start(t, criImages("use_local_image_pull = true"))
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(d)
	s := g.scene(t, d, "private/app")
	s.digest = s.push("1", image(1))
	ref := s.ref(":1")
	_ = s.ask(wrong, "IfNotPresent", ref, "Failed")
	_ = s.ask(alice, "IfNotPresent", ref, "Pulled")
	for _, name := range []string{ref, s.digest} {
		for _, who := range []tenant{nobody, wrong, eve} {
			_ = s.ask(who, "IfNotPresent", name, "Failed")
			_ = s.ask(who, "Never", name, "Failed")
		}
		_ = s.ask(alice, "Never", name, "Present")
	}
	_ = s.ask(bob, "Never", ref, "Failed")
	_ = s.ask(bob, "IfNotPresent", ref, "Unchanged")
	s.push("1", image(2))
	_ = s.ask(bob, "Always", ref, "Pulled")
	_ = s.ask(alice, "Never", ref, "Failed")
	_ = s.ask(nobody, "Never", ref, "Failed")
	_ = s.ask(bob, "Never", ref, "Present")
	g.deny(bob.user, s.repo, true)
	_ = s.ask(bob, "Always", ref, "Failed")
	_ = s.ask(bob, "Never", ref, "Failed")
	_ = s.ask(alice, "IfNotPresent", ref, "Unchanged")
}

// TestAccessAfterPullsByOthers holds that a pull past CRI, which only root can
// make, takes no restriction off the image that is there. What it brings is
// open, like everything that is preloaded.
func TestAccessAfterPullsByOthers(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(d)
	s := g.scene(t, d, "public/app")
	s.digest = s.push("1", image(1))
	ref := s.ref(":1")
	_ = s.ask(alice, "Always", ref, "Pulled")
	_ = s.ask(nobody, "Never", ref, "Failed")
	s.must(s.transfer(t.Context(), ref))
	_ = s.ask(nobody, "Never", ref, "Failed")
	_ = s.ask(nobody, "Never", s.digest, "Failed")
	_ = s.ask(alice, "Never", ref, "Present")

	s.push("1", image(2))
	s.must(s.transfer(t.Context(), ref))
	eventually(t, "CRI knows the new image", func() bool {
		return s.imageStatus(ref).GetImage().GetId() != "" && s.imageStatus(ref).GetImage().GetId() != s.imageStatus(s.digest).GetImage().GetId()
	})
	_ = s.ask(nobody, "Never", ref, "Present")
	_ = s.ask(nobody, "Never", s.digest, "Failed") // the one before
}

// TestAccessOfLabelsMadeByHand holds that labels that do not belong together
// let nobody in.
func TestAccessOfLabelsMadeByHand(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(d)
	s := g.scene(t, d, "private/app")
	s.digest = s.push("1", image(1))
	ref := s.ref(":1")
	_ = s.ask(alice, "Always", ref, "Pulled")
	s.settle()
	good := s.labels(ref)
	for what, change := range map[string]map[string]string{
		"no digest":           {"verified-digest": ""},
		"another digest":      {"verified-digest": "sha256:" + good["verified-digest"][:64]},
		"no time":             {"verified-at": ""},
		"a time of no sort":   {"verified-at": "now"},
		"anonymous, sometime": {"access.anonymous": "sometime"},
		"an empty name":       {"access.": "2026-01-01T00:00:00Z"},
		"the name of open":    {"access.open": "2026-01-01T00:00:00Z"},
	} {
		proofHolds := what == "anonymous, sometime" || what == "an empty name" || what == "the name of open"
		for _, name := range []string{ref, s.digest} {
			s.setLabels(name, change)
		}
		for _, name := range []string{ref, s.digest} {
			for _, who := range []tenant{nobody, wrong, eve, bob} {
				_ = s.ask(who, "Never", name, "Failed")
			}
			_ = s.ask(nobody, "Never", name, "Failed", auth(&runtimeapi.AuthConfig{Auth: "not base64"}))
			_ = s.ask(alice, "Never", name, map[bool]string{true: "Present", false: "Failed"}[proofHolds])
		}
		for _, name := range []string{ref, s.digest} {
			back := map[string]string{}
			for label := range change {
				back[label] = good[label]
			}
			s.setLabels(name, back)
		}
		if t.Failed() {
			t.Fatalf("with %s", what)
		}
	}
	// Without any label it is as if it had been imported.
	none := map[string]string{}
	for label := range good {
		none[label] = ""
	}
	s.setLabels(ref, none)
	_ = s.ask(nobody, "Never", ref, "Failed") // the record by digest knows
	s.setLabels(s.digest, none)
	_ = s.ask(nobody, "Never", ref, "Present")
}
