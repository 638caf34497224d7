// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"sync"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The callers that a private host knows.
var (
	users  = map[string]string{"alice": "Pa55-of-alice", "bob": "Pa55-of-bob", "eve": "Pa55-of-eve"}
	nobody = node.Auth(nil)
	alice  = node.Credentials("alice", users["alice"])
	bob    = node.Credentials("bob", users["bob"])
	eve    = node.Credentials("eve", users["eve"])
)

// private is a host that lets alice and bob in.
type private struct {
	*resolvertest.Registry
	mu     sync.Mutex
	denied map[string]bool
}

func newPrivate(t *testing.T) *private {
	t.Helper()
	p := &private{Registry: resolvertest.New(t, resolvertest.WithBasicAuth(users)), denied: map[string]bool{"": true, "eve": true}}
	p.Allow(func(user, _ string) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.denied[user]
	})
	return p
}

// newPrivateSite is newSiteOf with an origin and a mirror that are private.
func newPrivateSite(t *testing.T, rule string) (s site, origin, mirror *private) {
	t.Helper()
	origin, mirror = newPrivate(t), newPrivate(t)
	return newSiteOf(t, origin.Registry, mirror.Registry, rule), origin, mirror
}

// deny shuts a user out, or lets it in.
func (p *private) deny(user string, denied bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.denied[user] = denied
}

func policy(p string) node.PullOption { return node.Hint("policy", p) }

// TestProofsInNeed holds that a mirror's yes in the place of the origin is a proof for
// those who got it alone, through restarts, until that mirror or the origin refuses.
func TestProofsInNeed(t *testing.T) {
	t.Parallel()
	s, origin, mirror := newPrivateSite(t, originThenMirrors)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	origin.Refuse()
	s.wantPull(ref, "Failed unreachable", eve)
	s.wantPull(ref, "Pulled mirror_fallback", alice)
	s.wantPull(ref, "Present policy", alice, policy("IfNotPresent"))
	s.wantPull(ref, "Unchanged proved", bob, policy("IfNotPresent"))
	for _, who := range []node.PullOption{nobody, eve} {
		s.wantPull(ref, "Failed unreachable", who, policy("IfNotPresent"))
		s.wantPull(ref, "Failed unproved", who, policy("Never"))
		s.wantPull(ref, "Failed unreachable", who)
	}
	s.wantPull(ref, "UsedCached mirror_fallback", bob)
	s.Restart()
	s.wantPull(ref, "Present policy", alice, policy("Never"))
	s.wantPull(ref, "Present policy", bob, policy("Never"))

	mirror.deny("alice", true)
	s.wantPull(ref, "Failed unreachable", alice)
	s.wantPull(ref, "Failed unproved", alice, policy("Never"))
	mirror.deny("bob", true)
	s.wantPull(ref, "Failed unreachable", bob, always())
	s.Restart()
	// Without any proof left it is still nobody's.
	mirror.Refuse()
	for _, who := range []node.PullOption{nobody, eve, alice, bob} {
		for _, p := range []string{"IfDigestChanged", "IfNotPresent"} {
			s.wantPull(ref, "Failed unreachable", who, policy(p))
		}
	}

	s = s.in(t)
	mirror.deny("bob", false)
	s.wantPull(ref, "Unchanged same_digest", bob)
	s.wantLabels(ref, map[string]string{"stale-reason": "", "mirror-digest": "", "verified-by": origin.Host()})
	s.wantPull(ref, "Failed unproved", alice, policy("Never"))
}

// TestOriginsRefusalInNeed holds that the origin ends what a mirror has proved in its
// place, and that proofs of an image that a mirror gave outlast the origin's next check.
func TestOriginsRefusalInNeed(t *testing.T) {
	t.Parallel()
	s, origin, _ := newPrivateSite(t, originThenMirrors)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	origin.Refuse()
	s.wantPull(ref, "Pulled mirror_fallback", alice)
	s.wantPull(ref, "UsedCached mirror_fallback", bob)

	s.Restore()
	s.forgetTrouble()
	s.wantPull(ref, "Unchanged same_digest", bob)
	s.wantPull(ref, "Present policy", alice, policy("Never"))
	origin.deny("alice", true)
	s.wantPull(ref, "Failed forbidden", alice)
	s.wantPull(ref, "Failed unproved", alice, policy("Never"))
	s.wantPull(ref, "Present policy", bob, policy("Never"))
}

// TestImportedInNeed holds that an image of which nothing was known is for callers with
// a proof as soon as a mirror has answered in the place of the origin.
func TestImportedInNeed(t *testing.T) {
	t.Parallel()
	s, origin, mirror := newPrivateSite(t, originThenMirrors)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.Import(ref, nodetest.Image(1))
	origin.Refuse()
	s.wantPull(ref, "Unchanged proved", alice, policy("IfNotPresent"))
	s.wantLabels(ref, map[string]string{"stale-reason": "", "verified-at": ""})
	mirror.Refuse()
	s.wantPull(ref, "Failed unreachable", bob, policy("IfNotPresent"))
	s.wantPull(ref, "Present policy", alice, policy("IfNotPresent"))
}

// TestMirrorsRefusalOfContentThatTheRegistryHas holds that a mirror which has let a caller in, and refuses
// them by now, ends what it has given, also in a pull whose content the registry then has.
func TestMirrorsRefusalOfContentThatTheRegistryHas(t *testing.T) {
	t.Parallel()
	for what, opts := range map[string][]node.PullOption{
		"in the check": {alice}, "in the pull": {alice, node.Hint("resolve-from", "Origin")},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, _, mirror := newPrivateSite(t, "")
			s.both("app:1", 1)
			s.both("app:2", 2)
			s.wantPull(nodetest.Named("app:1"), "Pulled absent", alice)
			mirror.deny("alice", true)
			s.wantPull(nodetest.Named("app:2"), "Pulled absent", opts...)
			s.wantPull(nodetest.Named("app:1"), "Failed unproved", alice, policy("Never"))
		})
	}
}
