// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// authority is a rule by which the mirror, such as a proxy cache before a firewalled
// registry, speaks for the origin. A host that hangs costs half of the time, and leaves
// the other enough of it on a busy machine.
const authority = `authority = ["MIRROR"]
verify_timeout = "10s"
`

// verdicts are the answers of an authority that count like the origin's.
var verdicts = map[string]struct {
	code  int
	class string
}{
	"401": {401, "unauthorized"},
	"403": {403, "forbidden"},
	"404": {404, "not_found"},
	"410": {410, "not_found"},
}

// TestAuthority holds that an authority's refusal and "not found" end the asking, with
// their class and their directive; nobody asks the origin, which might be firewalled.
func TestAuthority(t *testing.T) {
	t.Parallel()
	s := newSite(t, authority)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.MustPull(ref)
	for name, tt := range verdicts {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			s.wantPull(ref, "Unchanged same_digest", always())
			s.mirror.Status(resolvertest.Manifests, tt.code)
			connections := s.Registry.Connections()
			want := "Failed"
			if tt.class == "not_found" {
				want = "UsedCached"
				s.wantPull(ref, "Failed not_found", node.Hint("on-not-found", "Fail"))
			}
			got := s.wantPull(ref, want+" "+tt.class)
			if !strings.Contains(got.DecidedBy, "authority="+s.mirror.Host()) {
				t.Errorf("decided by %q", got.DecidedBy)
			}
			s.wantPull(ref, "Failed "+tt.class, always())
			nodetest.Want(t, "connections to the origin", s.Registry.Connections(), connections)
		})
	}
}

// TestAuthorityOverAFirewall holds that on.not_found comes to pass where the origin
// swallows packets, and that no time-out is paid for it.
func TestAuthorityOverAFirewall(t *testing.T) {
	t.Parallel()
	s := newSite(t, strings.Replace(authority, "10s", "60s", 1)+"on = { not_found = \"Fail\", unreachable = \"UseCached\" }\n")
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.MustPull(ref)
	swallowed(t, s.Registry)
	s.mirror.Status(resolvertest.Manifests, 404)
	got := s.wantPull(ref, "Failed not_found")
	nodetest.Want(t, "attempts that name the origin", strings.Contains(got.Error, s.Registry.Host()), false)
}

// TestAuthorityHasNoOtherSay holds that every other failure of an authority leads to the
// next host, and that a mirror that is none proves nothing.
func TestAuthorityHasNoOtherSay(t *testing.T) {
	t.Parallel()
	s := newSite(t, authority)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.MustPull(ref)
	for name, fault := range map[string]fault{
		"429": statusOf(429), "500": statusOf(500), "portal": portal, "refused": refused, "hanging": hanging,
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			fault(t, s.mirror)
			nodetest.Want(t, "who confirms", s.wantPull(ref, "Unchanged same_digest", always()).VerifiedBy, s.Registry.Host())
			s.Registry.Refuse()
			s.wantPull(ref, "Failed unreachable", always())
		})
	}
	s.WriteRules("rule.toml", ruleOf("authority = [\"other.test\"]\n", s.mirror))
	nodetest.Eventually(t, "the mirror is no authority", func() bool {
		s := s.in(t)
		s.mirror.Status(resolvertest.Manifests, 404)
		s.Registry.Refuse()
		mark := s.Mark()
		s.MustPull(ref)
		return s.Decision(mark, ref).Class == "unreachable"
	})
}

// TestAuthorityInPulls holds that the class of a pull that fails is judged in the same
// way, and that content is still asked for at the other hosts.
func TestAuthorityInPulls(t *testing.T) {
	t.Parallel()
	s := newSite(t, authority)
	for name, tt := range verdicts {
		if tt.code == 401 {
			continue // to a HEAD as well
		}
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			ref := nodetest.Named("app" + name + ":1")
			s.both("app"+name+":1", int64(tt.code))
			nothingGet(s.mirror, tt.code)
			s.wantPull(ref, "Pulled absent")
			nodetest.Want(t, "source", s.Labels(ref)["pull-source"], s.Registry.Host()+"/app"+name+":1")

			s.both("app"+name+":1", int64(-tt.code))
			s.Registry.Refuse()
			got := s.wantPull(ref, "Failed "+tt.class, always())
			if !strings.Contains(got.Error, s.Registry.Host()+": unreachable") {
				t.Errorf("the origin was not asked: %s", got.Error)
			}
		})
	}
}

// TestAuthorityEndsProofs holds that an authority's refusal ends a caller's own proof,
// whoever gave it, as the origin's does.
func TestAuthorityEndsProofs(t *testing.T) {
	t.Parallel()
	s, _, mirror := newPrivateSite(t, authority)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.wantPull(ref, "Pulled absent", alice, node.Hint("resolve-from", "Origin"))
	s.wantPull(ref, "Unchanged same_digest", bob, node.Hint("resolve-from", "Origin"))
	mirror.deny("alice", true)
	s.wantPull(ref, "Failed forbidden", alice)
	s.wantPull(ref, "Failed unproved", alice, policy("Never"))
	s.wantPull(ref, "Present policy", bob, policy("Never"))
}

// TestAuthorityAndEverybodysProof holds that an authority's refusal of one caller does
// not end what the origin gave to everybody.
func TestAuthorityAndEverybodysProof(t *testing.T) {
	t.Parallel()
	mirror := newPrivate(t)
	s := newSiteOf(t, resolvertest.New(t), mirror.Registry, authority)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.wantPull(ref, "Pulled absent", nobody, node.Hint("resolve-from", "Origin"))
	s.wantPull(ref, "Failed unauthorized", nobody)
	s.wantPull(ref, "Present policy", nobody, policy("Never"))
}

// TestAuthorityInNeed holds that an authority is not asked for tags as long as the origin
// answers, or where that alone does, and that its word counts in the place of the origin.
func TestAuthorityInNeed(t *testing.T) {
	t.Parallel()
	s := newSite(t, authority+`resolve_from = "OriginThenMirrors"`+"\n")
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.MustPull(ref)
	for name, tt := range verdicts {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			s.mirror.Status(resolvertest.Manifests, tt.code)
			s.wantPull(ref, "Unchanged same_digest", always())
			s.Registry.Refuse()
			s.wantPull(ref, "Failed unreachable", always("resolve-from", "Origin"))
			s.wantPull(ref, "Failed "+tt.class, always())
		})
	}
}
