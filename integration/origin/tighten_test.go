// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestTightenPassesNoAuthority holds that under hints = "Tighten" no pod gets an image that
// an authority refuses, or does not have, by a hint for the origin, which the node does not
// reach: as docs/harbor.md has it for nodes that reach Harbor alone.
func TestTightenPassesNoAuthority(t *testing.T) {
	t.Parallel()
	const rule = authority + "hints = \"Tighten\"\non = { not_found = \"Fail\" }\n"
	byOrigin := node.Hint("resolve-from", "Origin")
	t.Run("of which nothing is known", func(t *testing.T) {
		t.Parallel()
		mirror := newPrivate(t)
		s := newSiteOf(t, resolvertest.New(t), mirror.Registry, rule)
		ref := nodetest.Named("app:1")
		s.Import(ref, nodetest.Image(1))
		s.PushTo(mirror.Registry, "app:1", nodetest.Image(1))
		s.Registry.Refuse()
		s.wantPull(ref, "Failed forbidden", eve)
		s.wantPull(ref, "Failed unauthorized", nobody)
		for _, who := range []node.PullOption{eve, nobody} {
			if id, err := s.Pull(ref, who, byOrigin); err == nil {
				t.Errorf("the hint gives %s", id)
			}
		}
	})
	t.Run("taken away", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, rule+"access = \"Any\"\n")
		s.both("app:1", 1)
		ref := nodetest.Named("app:1")
		s.MustPull(ref)
		s.Registry.Refuse()
		s.mirror.Status(resolvertest.Manifests, 404)
		s.wantPull(ref, "Failed not_found")
		if id, err := s.Pull(ref, byOrigin); err == nil {
			t.Errorf("the hint gives %s", id)
		}
	})
	t.Run("revoked", func(t *testing.T) {
		t.Parallel()
		origin, mirror := newPrivate(t), newPrivate(t)
		s := newSiteOf(t, origin.Registry, mirror.Registry, rule)
		s.both("app:1", 1)
		ref := nodetest.Named("app:1")
		mirror.Refuse()
		s.wantPull(ref, "Pulled absent", alice) // the origin says yes
		s = s.in(t)
		origin.Refuse()
		mirror.deny("alice", true)
		if id, err := s.Pull(ref, alice, byOrigin); err == nil {
			t.Errorf("the hint gives %s", id)
		}
		s.wantPull(ref, "Failed forbidden", alice)
	})
}

// TestTightenRevivesNoProof holds that under hints = "Tighten" no pod keeps an image that the
// mirror which gave its proof refuses by now, by a hint for the origin, which has answered. A
// proof by the origin is as good as ever.
func TestTightenRevivesNoProof(t *testing.T) {
	t.Parallel()
	originFirst := node.Hint("resolve-from", "OriginThenMirrors")
	for class, code := range map[string]int{"not_found": 404, "rate_limited": 429} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			mirror := newPrivate(t)
			s := newSiteOf(t, resolvertest.New(t), mirror.Registry, "hints = \"Tighten\"\n")
			s.both("app:1", 1)
			ref := nodetest.Named("app:1")
			s.Registry.Status(resolvertest.Manifests, code)
			s.wantPull(ref, "Pulled absent", alice)
			mirror.deny("alice", true)
			s.wantPull(ref, "Failed "+class, alice, originFirst)
			s.wantPull(ref, "Failed "+class, alice)
			s.wantPull(ref, "Failed "+class, alice, originFirst)

			s = s.in(t)
			s.wantPull(ref, "Unchanged same_digest", alice, originFirst)
			s.Registry.Status(resolvertest.Manifests, code)
			s.wantPull(ref, "UsedCached "+class, alice, originFirst)
		})
	}
}
