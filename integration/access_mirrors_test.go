// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessThroughMirrors has a private registry behind a mirror that lets
// everybody in. The mirror's word counts, unless the origin's is wanted.
func TestAccessThroughMirrors(t *testing.T) {
	t.Parallel()
	d := prepareDaemon(t)
	d.rules("origin.toml", `
[[rule]]
images = ["r.test/private/origin/*"]
resolve_from = "Origin"
[[rule]]
images = ["r.test/private/tight/*"]
resolve_from = "Origin"
hints = "Tighten"
`)
	d.run()
	d.waitForCRI()
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	mirror := resolvertest.New(t)
	d.hostsTOML(g.name, d.server(g.Registry)+d.mirror(mirror, ""))
	of := func(repo string, seed int64) *scene {
		s := g.scene(t, d, repo)
		s.digest = s.push("1", image(seed))
		d.push(mirror, repo+":1", image(seed))
		return s
	}

	open := of("private/open/app", 1)
	_ = open.ask(nobody, "IfNotPresent", open.ref(":1"), "Pulled")
	for _, who := range []tenant{nobody, wrong, eve, alice} {
		_ = open.ask(who, "Never", open.ref(":1"), "Present")
		_ = open.ask(who, "Never", open.digest, "Present")
	}

	strict := of("private/origin/app", 2)
	for _, who := range []tenant{nobody, wrong, eve} {
		if _, err := strict.pull(strict.ref(":1"), who.secret()); err == nil {
			t.Errorf("%v gets %s", who, strict.ref(":1"))
		}
	}
	strict.mustPull(strict.ref(":1"), alice.secret())
	mirrored := mirror.Count(resolvertest.Of("GET", resolvertest.Blobs))
	if mirrored == 0 || g.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 {
		t.Error("the content does not come through the mirror")
	}
	for _, ref := range []string{strict.ref(":1"), strict.digest} {
		for _, who := range []tenant{nobody, wrong, eve} {
			for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
				if _, err := strict.pull(ref, who.secret(), hint("policy", policy)); err == nil {
					t.Errorf("%v gets %s by %s", who, ref, policy)
				}
			}
		}
	}
	// The tag of the image goes by the origin, also where the mirror moved it.
	d.push(mirror, strict.repo+":1", image(3))
	strict.mustPull(strict.ref(":1"), bob.secret(), hint("policy", "Always"))
	want(t, "target", strict.ref("@"+strict.target(strict.ref(":1")).String()), strict.digest)

	// Under Tighten no pod can choose the mirror's word.
	tight := of("private/tight/app", 4)
	tight.mustPull(tight.ref(":1"), alice.secret())
	for _, ref := range []string{tight.ref(":1"), tight.digest} {
		err := tight.mustFail(ref, []string{"pullwarden.io/resolve-from", "Origin"}, nobody.secret(), hint("resolve-from", "Mirrors"))
		wantNot(t, err, "unauthorized")
	}
}

// TestAccessAndMirrorsThatRefuse holds that a mirror's refusal takes no proof
// away while the origin has its say.
func TestAccessAndMirrorsThatRefuse(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	mirror := resolvertest.New(t)
	d.hostsTOML(g.name, d.server(g.Registry)+d.mirror(mirror, ""))
	for _, code := range []int{401, 403} {
		mirror.Status(resolvertest.All, code)
		s := g.scene(t, d, fmt.Sprintf("private/app%d", code))
		s.digest = s.push("1", image(int64(code)))
		_ = s.ask(alice, "Always", s.ref(":1"), "Pulled")
		_ = s.ask(alice, "Always", s.ref(":1"), "Unchanged")
		_ = s.ask(nobody, "IfNotPresent", s.ref(":1"), "Failed")
		g.Refuse()
		_ = s.ask(alice, "IfDigestChanged", s.ref(":1"), "UsedCached")
		_ = s.ask(alice, "Never", s.ref(":1"), "Present")
		_ = s.ask(bob, "IfNotPresent", s.ref(":1"), "Failed")
		s.up()
		g.deny(alice.user, s.repo, true)
		_ = s.ask(alice, "Always", s.ref(":1"), "Failed")
		_ = s.ask(alice, "Never", s.ref(":1"), "Failed")
		if err := mirror.Restore(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAccessThroughAPrivateMirror holds that a mirror that wants credentials
// proves access to those that it knows.
func TestAccessThroughAPrivateMirror(t *testing.T) {
	t.Parallel()
	d := start(t)
	origin := resolvertest.New(t)
	mirror := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	d.hostsTOML(mirror.name, d.server(origin)+d.mirror(mirror.Registry, ""))
	origin.Refuse()
	s := mirror.scene(t, d, "private/app")
	byDigest := s.push("1", image(1))
	_ = s.ask(alice, "IfNotPresent", s.ref(":1"), "Pulled")
	for _, who := range []tenant{nobody, wrong, eve} {
		_ = s.ask(who, "IfNotPresent", s.ref(":1"), "Failed")
		_ = s.ask(who, "Never", byDigest, "Failed")
	}
	_ = s.ask(bob, "IfNotPresent", byDigest, "Unchanged")
	_ = s.ask(alice, "Never", byDigest, "Present")
}
