// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessTTL holds that proofs end by age, in doubt too early.
func TestAccessTTL(t *testing.T) {
	t.Parallel()
	d := start(t, section(`access_ttl = "1h"`))
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(d)
	for i, tt := range []struct {
		what, at string
		holds    bool
	}{
		{"new", "", true},
		{"young enough", ago(50 * time.Minute), true},
		{"too old", ago(70 * time.Minute), false},
		{"from the future, after the clock went back", ago(-2 * time.Hour), false},
		{"no time", "yesterday", false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			s := g.scene(t, d, fmt.Sprintf("private/app%d", i))
			byDigest := s.push("1", image(int64(i)))
			ref := s.ref(":1")
			age := func() {
				if tt.at == "" {
					return
				}
				s.settle()
				for _, name := range []string{ref, byDigest} {
					s.setProofs(name, func(string) string { return tt.at })
				}
			}
			outcomes := func(holding, otherwise string) string {
				if tt.holds {
					return holding
				}
				return otherwise
			}
			_ = s.ask(alice, "Always", ref, "Pulled")
			age()
			_ = s.ask(alice, "Never", ref, outcomes("Present", "Failed"))
			_ = s.ask(alice, "Never", byDigest, outcomes("Present", "Failed"))
			g.Refuse()
			_ = s.ask(alice, "IfNotPresent", ref, outcomes("Present", "Failed"))
			_ = s.ask(alice, "IfDigestChanged", ref, outcomes("UsedCached", "Failed"))
			s.up()
			_ = s.ask(alice, "IfNotPresent", ref, outcomes("Present", "Unchanged"))
			_ = s.ask(alice, "Never", ref, "Present") // proved again
			_ = s.ask(nobody, "Never", ref, "Failed")
			if tt.holds {
				return
			}
			age()
			g.deny(alice.user, s.repo, true)
			_ = s.ask(alice, "IfNotPresent", byDigest, "Failed")
			_ = s.ask(alice, "IfNotPresent", ref, "Failed")
		})
	}
}

// TestAccessTTLOfAnonymous holds that what is open to all does not stay so
// without being asked for.
func TestAccessTTLOfAnonymous(t *testing.T) {
	t.Parallel()
	d := start(t, section(`access_ttl = "1h"`))
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(d)
	s := g.scene(t, d, "public/app")
	byDigest := s.push("1", image(1))
	_ = s.ask(nobody, "Always", s.ref(":1"), "Pulled")
	_ = s.ask(eve, "Never", s.ref(":1"), "Present")
	s.settle()
	for _, name := range []string{s.ref(":1"), byDigest} {
		s.setProofs(name, func(string) string { return ago(2 * time.Hour) })
	}
	_ = s.ask(eve, "Never", s.ref(":1"), "Failed")
	_ = s.ask(nobody, "Never", s.ref(":1"), "Failed")
	_ = s.ask(nobody, "IfNotPresent", s.ref(":1"), "Unchanged")
	_ = s.ask(eve, "Never", s.ref(":1"), "Present")
}

// TestAccessAny holds that access = "Any" opens what its rule matches, and
// nothing else does.
func TestAccessAny(t *testing.T) {
	t.Parallel()
	d := prepareDaemon(t)
	d.rules("any.toml", `
[[rule]]
images = ["r.test/private/open/*"]
access = "Any"
[rule.on]
unauthorized = "UseCached"
forbidden = "UseCached"
[[rule]]
images = ["r.test/private/team/*"]
namespaces = ["team-*"]
access = "Any"
`)
	d.run()
	d.waitForCRI()
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(d)

	open := g.scene(t, d, "private/open/app")
	open.push("1", image(1))
	_ = open.ask(nobody, "IfNotPresent", open.ref(":1"), "Failed") // nothing is there, and the registry says no
	_ = open.ask(alice, "Always", open.ref(":1"), "Pulled")
	for _, who := range []tenant{nobody, wrong, eve, bob} {
		_ = open.ask(who, "IfNotPresent", open.ref(":1"), "Present")
		_ = open.ask(who, "Never", open.ref(":1"), "Present")
	}
	_ = open.ask(nobody, "Always", open.ref(":1"), "Failed")
	_ = open.ask(wrong, "IfDigestChanged", open.ref(":1"), "UsedCached")
	g.deny(alice.user, open.repo, true)
	_ = open.ask(alice, "IfDigestChanged", open.ref(":1"), "UsedCached")
	_ = open.ask(alice, "IfDigestChanged", open.ref(":1"), "UsedCached")

	for _, repo := range []string{"private/opener/app", "private/app", "private/open"} {
		other := g.scene(t, d, repo)
		other.push("1", image(1))
		_ = other.ask(alice, "Always", other.ref(":1"), "Pulled")
		_ = other.ask(nobody, "IfNotPresent", other.ref(":1"), "Failed")
		for _, key := range []string{"access", "access-ttl", "allowed-sources"} {
			err := other.ask(nobody, "IfNotPresent", other.ref(":1"), "Failed", hint(key, "Any"))
			wantWords(t, err, "pullwarden.io/"+key)
		}
		for _, on := range []string{"on-unauthorized", "on-forbidden", "on-invalid"} {
			_ = other.ask(nobody, "IfDigestChanged", other.ref(":1"), "Failed", hint(on, "UseCached"))
		}
		for _, on := range []string{"on-unreachable", "on-not-found", "max-age", "max-stale"} {
			value := map[bool]string{true: "24h", false: "UseCached"}[on[:2] == "ma"]
			_ = other.ask(nobody, "IfDigestChanged", other.ref(":1"), "Failed", hint(on, value))
		}
	}

	team := g.scene(t, d, "private/team/app")
	team.push("1", image(1))
	_ = team.ask(alice, "Always", team.ref(":1"), "Pulled")
	_ = team.ask(nobody, "Never", team.ref(":1"), "Present", podNamespace("team-a"))
	_ = team.ask(nobody, "Never", team.ref(":1"), "Failed", podNamespace("other"))
}

// TestAccessOfRepositories holds that names that begin alike have nothing to do
// with each other.
func TestAccessOfRepositories(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(d)
	repos := []string{"private/app", "private/app2", "private/app/sub", "private/ap", "private"}
	scenes := map[string]*scene{}
	for _, repo := range repos {
		s := g.scene(t, d, repo)
		s.push("1", image(1)) // the same content in each
		scenes[repo] = s
	}
	_ = scenes["private/app"].ask(alice, "Always", scenes["private/app"].ref(":1"), "Pulled")
	for _, repo := range repos[1:] {
		s := scenes[repo]
		g.deny(alice.user, repo, true)
		_ = s.ask(alice, "IfNotPresent", s.ref(":1"), "Failed")
		_ = s.ask(bob, "Always", s.ref(":1"), "Pulled")
		_ = s.ask(alice, "Never", s.ref(":1"), "Failed")
		_ = s.ask(alice, "IfNotPresent", s.ref(":1"), "Failed")
		g.deny(alice.user, repo, false)
		_ = s.ask(alice, "IfNotPresent", s.ref(":1"), "Unchanged")
	}
	app := scenes["private/app"]
	_ = app.ask(alice, "Never", app.ref(":1"), "Present") // the refusals were not about this one
	g.deny(alice.user, "private/app", true)
	_ = app.ask(alice, "Always", app.ref(":1"), "Failed")
	_ = app.ask(alice, "Never", app.ref(":1"), "Failed")
	for _, repo := range repos[1:] {
		_ = scenes[repo].ask(alice, "Never", scenes[repo].ref(":1"), "Present")
	}
}

// TestAccessOf33 holds that an image keeps 32 proofs, and that the one goes
// that was not used for longest.
func TestAccessOf33(t *testing.T) {
	t.Parallel()
	var all []tenant
	for i := range 33 {
		all = append(all, tenant{fmt.Sprintf("user%02d", i), fmt.Sprintf("password-of-user-%02d", i)})
	}
	d := start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test", all...)
	g.serve(d)
	s := g.scene(t, d, "private/app")
	byDigest := s.push("1", image(1))
	ref := s.ref(":1")
	s.mustPull(ref, all[0].secret())
	for _, who := range all[1:32] {
		_ = s.ask(who, "Always", ref, "Unchanged")
	}
	s.settle()
	for _, name := range []string{ref, byDigest} {
		want(t, "proofs on "+name, len(s.proofs(name)), 32)
		s.setProofs(name, func(string) string { return ago(time.Hour) })
	}
	for _, who := range all[:31] { // all but one make use of theirs
		_ = s.ask(who, "Never", ref, "Present")
	}
	_ = s.ask(all[32], "IfNotPresent", ref, "Unchanged")
	for _, name := range []string{ref, byDigest} {
		eventually(t, "the 33rd is written", func() bool {
			return len(s.proofs(name)) == 32 && slices.ContainsFunc(s.proofs(name), func(f string) bool {
				at, err := time.Parse(time.RFC3339, s.labels(name)["access."+f])
				return err == nil && time.Since(at) < 30*time.Minute
			})
		})
	}
	_ = s.ask(all[31], "Never", ref, "Failed")
	_ = s.ask(all[31], "Never", byDigest, "Failed")
	for _, who := range append(all[:31:31], all[32]) {
		_ = s.ask(who, "Never", ref, "Present")
	}
	_ = s.ask(all[31], "IfNotPresent", ref, "Unchanged")
	_ = s.ask(all[31], "Never", ref, "Present")
}

// TestAccessUntilTheTokenEnds holds that a registry's token is not used for
// longer than the registry said: a refusal comes then, at the latest.
func TestAccessUntilTheTokenEnds(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(d)
	g.SetTokenLifetime(2 * time.Second)
	s := g.scene(t, d, "private/app")
	s.push("1", image(1))
	ref := s.ref(":1")
	_ = s.ask(alice, "Always", ref, "Pulled")
	g.mu.Lock()
	g.denied[alice.user+" "+s.repo] = true // and the token that is out stays good
	g.mu.Unlock()
	eventually(t, "alice is refused", func() bool {
		_, err := s.pull(ref, alice.secret(), hint("policy", "Always"))
		return err != nil
	})
	_ = s.ask(alice, "Never", ref, "Failed")
}
