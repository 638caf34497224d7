// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessByIdentityToken holds that a token that stands for a user is a
// caller like any other.
func TestAccessByIdentityToken(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
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
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	ref := s.ref(":1")
	token := func(t string) node.PullOption { return node.Auth(&runtimeapi.AuthConfig{IdentityToken: t}) }
	s.wantPull(nobody, "IfNotPresent", ref, "Failed", token("not the identity token of alice"))
	s.wantPull(nobody, "IfNotPresent", ref, "Pulled", token(identity))
	s.wantPull(nobody, "Never", ref, "Present", token(identity))
	s.wantPull(nobody, "Never", ref, "Present", node.Auth(&runtimeapi.AuthConfig{Auth: base64.StdEncoding.EncodeToString([]byte(":" + identity))}))
	s.wantPull(nobody, "Never", ref, "Failed", token("not the identity token of alice"))
	s.wantPull(nobody, "Never", ref, "Failed", token(identity+"x"))
	s.wantPull(caller{"x", identity}, "Never", ref, "Failed")
	s.wantPull(caller{identity, "x"}, "Never", ref, "Failed")
	s.wantPull(nobody, "Never", ref, "Failed")
	s.wantPull(alice, "Never", ref, "Failed") // another secret, though the same user
	s.wantPull(alice, "IfNotPresent", ref, "Unchanged")
}

// TestAccessOfCredentialsForElsewhere holds that credentials are not shown to
// hosts that they are not for, and that what cannot be read proves nothing.
func TestAccessOfCredentialsForElsewhere(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	ref := s.ref(":1")
	of := func(who caller, server string) node.PullOption {
		return node.Auth(&runtimeapi.AuthConfig{Username: who.user, Password: who.password, ServerAddress: server})
	}
	broken := []node.PullOption{
		node.Auth(&runtimeapi.AuthConfig{Auth: "not base64"}),
		node.Auth(&runtimeapi.AuthConfig{Auth: base64.StdEncoding.EncodeToString([]byte("no colon"))}),
		node.Auth(&runtimeapi.AuthConfig{Username: alice.user, Password: alice.password, ServerAddress: "https://r.test:port"}),
	}
	s.wantPull(nobody, "Always", ref, "Failed", of(alice, "https://elsewhere.test"))
	s.wantPull(nobody, "Always", ref, "Pulled", of(alice, "https://"+g.Host()))
	for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
		for _, opt := range broken {
			if _, err := s.Pull(ref, opt, node.Hint("policy", policy)); err == nil && (policy == "Always" || policy == "IfDigestChanged") {
				t.Errorf("credentials that cannot be read pass by %s", policy)
			}
		}
		s.wantPull(nobody, policy, ref, "Failed", of(bob, "https://elsewhere.test"))
		s.wantPull(nobody, policy, ref, "Failed", of(wrong, "https://"+g.Host()))
	}
	for _, opt := range broken[:2] {
		s.wantPull(nobody, "Never", ref, "Failed", opt)
	}
	s.wantPull(alice, "IfNotPresent", ref, "~")
	s.wantPull(alice, "Never", ref, "Present")
	s.wantPull(nobody, "Never", ref, "Present", of(alice, "https://elsewhere.test")) // who knows them may have it
}

// TestAccessWithLocalPull holds that access is kept where CRI is told to pull
// without the transfer service.
func TestAccessWithLocalPull(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.CRIImages("use_local_image_pull = true"))
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.digest = s.push("1", nodetest.Image(1))
	ref := s.ref(":1")
	s.wantPull(wrong, "IfNotPresent", ref, "Failed")
	s.wantPull(alice, "IfNotPresent", ref, "Pulled")
	for _, name := range []string{ref, s.digest} {
		for _, who := range []caller{nobody, wrong, eve} {
			s.wantPull(who, "IfNotPresent", name, "Failed")
			s.wantPull(who, "Never", name, "Failed")
		}
		s.wantPull(alice, "Never", name, "Present")
	}
	s.wantPull(bob, "Never", ref, "Failed")
	s.wantPull(bob, "IfNotPresent", ref, "Unchanged")
	s.push("1", nodetest.Image(2))
	s.wantPull(bob, "Always", ref, "Pulled")
	s.wantPull(alice, "Never", ref, "Failed")
	s.wantPull(nobody, "Never", ref, "Failed")
	s.wantPull(bob, "Never", ref, "Present")
	g.deny(bob.user, s.repo, true)
	s.wantPull(bob, "Always", ref, "Failed")
	s.wantPull(bob, "Never", ref, "Failed")
	s.wantPull(alice, "IfNotPresent", ref, "Unchanged")
}

// TestAccessAfterPullsByOthers holds that a pull past CRI, which only root can
// make, takes no restriction off the image that is there. An image that
// it brings is open, like everything that is preloaded.
func TestAccessAfterPullsByOthers(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "public/app")
	s.digest = s.push("1", nodetest.Image(1))
	ref := s.ref(":1")
	s.wantPull(alice, "Always", ref, "Pulled")
	s.wantPull(nobody, "Never", ref, "Failed")
	s.Transfer(ref)
	s.wantPull(nobody, "Never", ref, "Failed")
	s.wantPull(nobody, "Never", s.digest, "Failed")
	s.wantPull(alice, "Never", ref, "Present")

	s.push("1", nodetest.Image(2))
	s.Transfer(ref)
	nodetest.Eventually(t, "CRI knows the new image", func() bool {
		return s.Status(ref).GetImage().GetId() != "" && s.Status(ref).GetImage().GetId() != s.Status(s.digest).GetImage().GetId()
	})
	s.wantPull(nobody, "Never", ref, "Present")
	s.wantPull(nobody, "Never", s.digest, "Failed") // the one before
}

// TestAccessOfLabelsMadeByHand holds that labels that do not belong together
// let nobody in.
func TestAccessOfLabelsMadeByHand(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.digest = s.push("1", nodetest.Image(1))
	ref := s.ref(":1")
	s.wantPull(alice, "Always", ref, "Pulled")
	s.waitForWrites()
	good := s.Labels(ref)
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
			s.SetLabels(name, change)
		}
		for _, name := range []string{ref, s.digest} {
			for _, who := range []caller{nobody, wrong, eve, bob} {
				s.wantPull(who, "Never", name, "Failed")
			}
			s.wantPull(nobody, "Never", name, "Failed", node.Auth(&runtimeapi.AuthConfig{Auth: "not base64"}))
			s.wantPull(alice, "Never", name, map[bool]string{true: "Present", false: "Failed"}[proofHolds])
		}
		for _, name := range []string{ref, s.digest} {
			back := map[string]string{}
			for label := range change {
				back[label] = good[label]
			}
			s.SetLabels(name, back)
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
	s.SetLabels(ref, none)
	s.wantPull(nobody, "Never", ref, "Failed") // the record by digest knows
	s.SetLabels(s.digest, none)
	s.wantPull(nobody, "Never", ref, "Present")
}

// TestRefusalOpensNothing refuses the only caller of an image whose labels have lost the
// check: its proof proves nothing any more, and is all that keeps others out.
func TestRefusalOpensNothing(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.digest = s.push("1", nodetest.Image(1))
	ref := s.ref(":1")
	s.wantPull(alice, "Always", ref, "Pulled")
	s.waitForWrites()
	for _, name := range []string{ref, s.digest} {
		s.SetLabels(name, map[string]string{"verified-digest": ""})
	}
	g.deny(alice.user, s.repo, true)
	s.wantPull(alice, "Always", ref, "Failed")
	s.waitForWrites()
	for _, name := range []string{ref, s.digest} {
		for _, who := range []caller{nobody, alice, eve} {
			s.wantPull(who, "Never", name, "Failed")
		}
	}
}
