// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessTTL holds that proofs end by age, in doubt too early.
func TestAccessTTL(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Section(`access_ttl = "1h"`))
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
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
			s := g.scene(t, n, fmt.Sprintf("private/app%d", i))
			byDigest := s.push("1", nodetest.Image(int64(i)))
			ref := s.ref(":1")
			age := func() {
				if tt.at == "" {
					return
				}
				s.waitForWrites()
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
			s.wantPull(alice, "Always", ref, "Pulled")
			age()
			s.wantPull(alice, "Never", ref, outcomes("Present", "Failed"))
			s.wantPull(alice, "Never", byDigest, outcomes("Present", "Failed"))
			g.Refuse()
			s.wantPull(alice, "IfNotPresent", ref, outcomes("Present", "Failed"))
			s.wantPull(alice, "IfDigestChanged", ref, outcomes("UsedCached", "Failed"))
			s.Restore()
			s.wantPull(alice, "IfNotPresent", ref, outcomes("Present", "Unchanged"))
			s.wantPull(alice, "Never", ref, "Present") // proved again
			s.wantPull(nobody, "Never", ref, "Failed")
			if tt.holds {
				return
			}
			age()
			g.deny(alice.user, s.repo, true)
			s.wantPull(alice, "IfNotPresent", byDigest, "Failed")
			s.wantPull(alice, "IfNotPresent", ref, "Failed")
		})
	}
}

// TestAccessTTLOfAnonymous holds that what is open to all does not stay so
// without being asked for.
func TestAccessTTLOfAnonymous(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Section(`access_ttl = "1h"`))
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "public/app")
	byDigest := s.push("1", nodetest.Image(1))
	s.wantPull(nobody, "Always", s.ref(":1"), "Pulled")
	s.wantPull(eve, "Never", s.ref(":1"), "Present")
	s.waitForWrites()
	for _, name := range []string{s.ref(":1"), byDigest} {
		s.setProofs(name, func(string) string { return ago(2 * time.Hour) })
	}
	s.wantPull(eve, "Never", s.ref(":1"), "Failed")
	s.wantPull(nobody, "Never", s.ref(":1"), "Failed")
	s.wantPull(nobody, "IfNotPresent", s.ref(":1"), "Unchanged")
	s.wantPull(eve, "Never", s.ref(":1"), "Present")
}

// TestAccessAny holds that access = "Any" opens what its rule matches, and
// nothing else does.
func TestAccessAny(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t)
	n.WriteRules("any.toml", `
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
	n.Start()
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)

	open := g.scene(t, n, "private/open/app")
	open.push("1", nodetest.Image(1))
	open.wantPull(nobody, "IfNotPresent", open.ref(":1"), "Failed") // nothing is there, and the registry says no
	open.wantPull(alice, "Always", open.ref(":1"), "Pulled")
	for _, who := range []caller{nobody, wrong, eve, bob} {
		open.wantPull(who, "IfNotPresent", open.ref(":1"), "Present")
		open.wantPull(who, "Never", open.ref(":1"), "Present")
	}
	open.wantPull(nobody, "Always", open.ref(":1"), "Failed")
	open.wantPull(wrong, "IfDigestChanged", open.ref(":1"), "UsedCached")
	g.deny(alice.user, open.repo, true)
	open.wantPull(alice, "IfDigestChanged", open.ref(":1"), "UsedCached")
	open.wantPull(alice, "IfDigestChanged", open.ref(":1"), "UsedCached")

	for _, repo := range []string{"private/opener/app", "private/app", "private/open"} {
		other := g.scene(t, n, repo)
		other.push("1", nodetest.Image(1))
		other.wantPull(alice, "Always", other.ref(":1"), "Pulled")
		other.wantPull(nobody, "IfNotPresent", other.ref(":1"), "Failed")
		for _, key := range []string{"access", "access-ttl", "allowed-sources"} {
			err := other.wantPull(nobody, "IfNotPresent", other.ref(":1"), "Failed", node.Hint(key, "Any"))
			nodetest.WantWords(t, err, "pullwarden.io/"+key)
		}
		for _, on := range []string{"on-unauthorized", "on-forbidden", "on-invalid"} {
			other.wantPull(nobody, "IfDigestChanged", other.ref(":1"), "Failed", node.Hint(on, "UseCached"))
		}
		for _, on := range []string{"on-unreachable", "on-not-found", "max-age", "max-stale"} {
			value := map[bool]string{true: "24h", false: "UseCached"}[on[:2] == "ma"]
			other.wantPull(nobody, "IfDigestChanged", other.ref(":1"), "Failed", node.Hint(on, value))
		}
	}

	team := g.scene(t, n, "private/team/app")
	team.push("1", nodetest.Image(1))
	team.wantPull(alice, "Always", team.ref(":1"), "Pulled")
	team.wantPull(nobody, "Never", team.ref(":1"), "Present", node.Pod("team-a", "pod"))
	team.wantPull(nobody, "Never", team.ref(":1"), "Failed", node.Pod("other", "pod"))
}

// TestAccessOfRepositories holds that names that begin alike have nothing to do
// with each other.
func TestAccessOfRepositories(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(n)
	repos := []string{"private/app", "private/app2", "private/app/sub", "private/ap", "private"}
	scenes := map[string]*scene{}
	for _, repo := range repos {
		s := g.scene(t, n, repo)
		s.push("1", nodetest.Image(1)) // the same content in each
		scenes[repo] = s
	}
	scenes["private/app"].wantPull(alice, "Always", scenes["private/app"].ref(":1"), "Pulled")
	for _, repo := range repos[1:] {
		s := scenes[repo]
		g.deny(alice.user, repo, true)
		s.wantPull(alice, "IfNotPresent", s.ref(":1"), "Failed")
		s.wantPull(bob, "Always", s.ref(":1"), "Pulled")
		s.wantPull(alice, "Never", s.ref(":1"), "Failed")
		s.wantPull(alice, "IfNotPresent", s.ref(":1"), "Failed")
		g.deny(alice.user, repo, false)
		s.wantPull(alice, "IfNotPresent", s.ref(":1"), "Unchanged")
	}
	app := scenes["private/app"]
	app.wantPull(alice, "Never", app.ref(":1"), "Present") // the refusals were not about this one
	g.deny(alice.user, "private/app", true)
	app.wantPull(alice, "Always", app.ref(":1"), "Failed")
	app.wantPull(alice, "Never", app.ref(":1"), "Failed")
	for _, repo := range repos[1:] {
		scenes[repo].wantPull(alice, "Never", scenes[repo].ref(":1"), "Present")
	}
}

// TestAccessOf33 holds that an image keeps 32 proofs, and that the one goes
// that was not used for longest.
func TestAccessOf33(t *testing.T) {
	t.Parallel()
	var all []caller
	for i := range 33 {
		all = append(all, caller{fmt.Sprintf("user%02d", i), fmt.Sprintf("password-of-user-%02d", i)})
	}
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test", all...)
	g.serve(n)
	s := g.scene(t, n, "private/app")
	byDigest := s.push("1", nodetest.Image(1))
	ref := s.ref(":1")
	s.MustPull(ref, all[0].secret())
	for _, who := range all[1:32] {
		s.wantPull(who, "Always", ref, "Unchanged")
	}
	s.waitForWrites()
	for _, name := range []string{ref, byDigest} {
		nodetest.Want(t, "proofs on "+name, len(s.proofs(name)), 32)
		s.setProofs(name, func(string) string { return ago(time.Hour) })
	}
	for _, who := range all[:31] { // all but one make use of theirs
		s.wantPull(who, "Never", ref, "Present")
	}
	s.wantPull(all[32], "IfNotPresent", ref, "Unchanged")
	for _, name := range []string{ref, byDigest} {
		nodetest.Eventually(t, "the 33rd is written", func() bool {
			return len(s.proofs(name)) == 32 && slices.ContainsFunc(s.proofs(name), func(f string) bool {
				value, _, _ := strings.Cut(s.Labels(name)["access."+f], " ")
				at, err := time.Parse(time.RFC3339, value)
				return err == nil && time.Since(at) < 30*time.Minute
			})
		})
	}
	s.wantPull(all[31], "Never", ref, "Failed")
	s.wantPull(all[31], "Never", byDigest, "Failed")
	for _, who := range append(all[:31:31], all[32]) {
		s.wantPull(who, "Never", ref, "Present")
	}
	s.wantPull(all[31], "IfNotPresent", ref, "Unchanged")
	s.wantPull(all[31], "Never", ref, "Present")
}

// TestAccessUntilTheTokenEnds holds that a registry's token is not used for
// longer than the registry said: a refusal comes then, at the latest.
func TestAccessUntilTheTokenEnds(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	g.SetTokenLifetime(5 * time.Second)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	ref := s.ref(":1")
	s.wantPull(alice, "Always", ref, "Pulled")
	g.mu.Lock()
	g.denied[alice.user+" "+s.repo] = true // and the token that is out stays good
	g.mu.Unlock()
	nodetest.Eventually(t, "alice is refused", func() bool {
		_, err := s.Pull(ref, alice.secret(), node.Hint("policy", "Always"))
		return err != nil
	})
	s.wantPull(alice, "Never", ref, "Failed")
}
