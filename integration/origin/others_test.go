// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// careful is a rule by which the origin alone counts for the pods of one namespace. Those of
// others ask the mirror.
const careful = `namespaces = ["careful"]
resolve_from = "Origin"
max_stale = "24h"
hints = "Ignore"
`

// TestCheckOfTheOriginOutlastsAMirrors holds that a mirror's check, which the pod of another
// namespace asks for, takes the registry's check away from nobody: a cached image that the registry
// has confirmed just now is a fallback within max_stale.
func TestCheckOfTheOriginOutlastsAMirrors(t *testing.T) {
	t.Parallel()
	s, origin, mirror := newPrivateSite(t, careful)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.wantPull(ref, "Pulled absent", alice, node.Pod("careful", "a"))
	s.wantPull(ref, "Unchanged same_digest", alice, node.Pod("careful", "a"))
	origin.Refuse()
	s.wantPull(ref, "UsedCached unreachable", alice, node.Pod("careful", "a"))
	s.Restore()
	s.forgetTrouble()
	s.wantPull(ref, "Unchanged same_digest", alice, node.Pod("careful", "a"))

	s.wantPull(ref, "Unchanged same_digest", bob, node.Pod("others", "b")) // by the mirror
	s.wantLabels(ref, map[string]string{"verified-by": mirror.Host()})
	origin.Refuse()
	s.wantPull(ref, "UsedCached unreachable", alice, node.Pod("careful", "a"))
	s.Restore()
	s.forgetTrouble()
	s.wantPull(ref, "Unchanged same_digest", alice, node.Pod("careful", "a"))
	s.wantLabels(ref, map[string]string{"verified-by": origin.Host(), "verified-at.earlier": ""})
}

// TestEverybodysProofOfTheOriginOutlastsAMirrors holds the same of the proof that the registry has
// given to everybody. It goes by the registry's refusal, and does not come back then.
func TestEverybodysProofOfTheOriginOutlastsAMirrors(t *testing.T) {
	t.Parallel()
	s := newSiteOf(t, resolvertest.New(t), resolvertest.New(t), careful)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.wantPull(ref, "Pulled absent", nobody, node.Pod("careful", "a"))
	s.wantPull(ref, "Unchanged same_digest", nobody, node.Pod("others", "b")) // by the mirror
	s.wantLabels(ref, map[string]string{"verified-by": s.mirror.Host()})
	s.Registry.Refuse()
	s.wantPull(ref, "UsedCached unreachable", nobody, node.Pod("careful", "a"))

	s.Restore()
	s.forgetTrouble()
	undo := s.Registry.Script(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusForbidden) })
	s.wantPull(ref, "Failed forbidden", nobody, node.Pod("careful", "a"))
	undo()
	s.wantPull(ref, "Unchanged same_digest", nobody, node.Pod("others", "b"))
	s.Registry.Refuse()
	s.wantPull(ref, "Failed unreachable", nobody, node.Pod("careful", "a"))
}

// TestRegistrysProofOutlastsAMirrorsChangeOfMind holds that a mirror which has said yes, and refuses
// then, ends no proof that the registry gave before. The registry's own refusal ends both.
func TestRegistrysProofOutlastsAMirrorsChangeOfMind(t *testing.T) {
	t.Parallel()
	for _, yes := range []bool{false, true} {
		s, origin, mirror := newPrivateSite(t, "")
		s.both("app:1", 1)
		ref := nodetest.Named("app:1")
		mirror.Refuse()
		s.wantPull(ref, "Pulled absent", alice)
		s.Must(mirror.Restore())
		s.forgetTrouble()
		if yes {
			s.wantPull(ref, "Unchanged same_digest", alice) // by the mirror
		}
		mirror.deny("alice", true)
		origin.Refuse()
		s.wantPull(ref, "UsedCached unreachable", alice)

		s.Restart()
		s.wantPull(ref, "Present policy", alice, policy("Never"))
		s.Must(origin.Restore())
		s.forgetTrouble()
		mirror.deny("alice", false)
		s.wantPull(ref, "Unchanged same_digest", alice)
		mirror.Refuse()
		origin.deny("alice", true)
		s.wantPull(ref, "Failed forbidden", alice)
		s.wantPull(ref, "Failed unproved", alice, policy("Never"))
	}
}

// TestReadManifestOutlastsAnothersReverification holds that a check which has read the manifest is
// taken away by no pod of another namespace, whose rule asks for digests alone and has the image
// compared with an allowed host's.
func TestReadManifestOutlastsAnothersReverification(t *testing.T) {
	t.Parallel()
	s := newSiteOf(t, resolvertest.New(t), resolvertest.New(t), "")
	s.WriteRules("rule.toml", `[[rule]]
images = ["registry.test/**"]
namespaces = ["careful"]
check_with = "Manifest"
max_stale = "24h"
[[rule]]
images = ["registry.test/**"]
allowed_sources = ["`+s.Registry.Host()+`"]
`)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.wantPull(ref, "Pulled absent", alice, node.Pod("careful", "a"))
	s.wantPull(ref, "Unchanged same_digest", alice, node.Pod("careful", "a"))
	s.wantPull(ref, "Pulled source", bob, node.Pod("others", "b"))
	s.Registry.Refuse()
	s.mirror.Refuse()
	s.wantPull(ref, "UsedCached unreachable", alice, node.Pod("careful", "a"))
}
