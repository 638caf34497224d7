// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"fmt"
	"net/http"
	"strings"
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
		s, origin, mirror := newPrivateSite(t, rule)
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

// TestAnswerOfOnePathRevivesNoProof holds that a registry has answered where one of the paths to
// it has, though the other one, which is asked after it, does not.
func TestAnswerOfOnePathRevivesNoProof(t *testing.T) {
	t.Parallel()
	mirror := newPrivate(t)
	s := newSiteOf(t, resolvertest.New(t), mirror.Registry, "hints = \"Tighten\"\n")
	s.both("app:1", 1)
	name := s.Registry.Host() // both paths are the registry that the name says
	s.WriteRules("rule.toml", "[[rule]]\nimages = [\""+name+"/**\"]\nhints = \"Tighten\"\n")
	s.WriteHosts(name, s.Server(s.Registry)+s.Mirror(s.mirror, ""))
	s.wantPull(name+"/app:1", "Pulled absent", alice)
	mirror.deny("alice", true)
	path := fmt.Sprintf("[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\noverride_path = true\n", s.Registry.URL()+"/v2/first")
	s.WriteHosts(name, s.Server(s.Registry)+path+s.Mirror(s.mirror, ""))
	s.Registry.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		if !strings.HasPrefix(r.URL.Path, "/v2/first") {
			panic(http.ErrAbortHandler)
		}
		http.Error(w, "no", http.StatusNotFound)
	})
	before := asked(mirror.Registry)
	s.wantPull(name+"/app:1", "Failed not_found", alice, node.Hint("resolve-from", "OriginThenMirrors"))
	nodetest.Want(t, "requests to the mirror", asked(mirror.Registry)-before, 0)
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
