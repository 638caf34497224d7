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

// TestMirrorsProofAndAManifestThatTheRegistryRefuses holds that a proof which a mirror gave in the
// place of the registry counts no more once the registry has answered, be it with yes to the digest
// alone: as a caller without a proof the caller is not given an image whose manifest the registry,
// and the mirror by now, refuse.
func TestMirrorsProofAndAManifestThatTheRegistryRefuses(t *testing.T) {
	t.Parallel()
	s, origin, mirror := newPrivateSite(t, originThenMirrors)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	origin.Refuse()
	s.wantPull(ref, "Pulled mirror_fallback", alice)

	s.Restore()
	s.forgetTrouble()
	nothingGet(origin.Registry, 403)
	mirror.deny("alice", true)
	mirror.deny("bob", true)
	s.wantPull(ref, "Failed forbidden", bob)
	s.wantPull(ref, "Failed forbidden", alice)
	s.wantPull(ref, "Failed unproved", alice, policy("Never"))
}

// TestMirrorsProofOfWhatTheRegistryHasByAnotherTag is the same of an image for which the registry's
// tag stands now, and which the node has by another tag that a mirror gave.
func TestMirrorsProofOfWhatTheRegistryHasByAnotherTag(t *testing.T) {
	t.Parallel()
	s, origin, mirror := newPrivateSite(t, originThenMirrors)
	s.both("app:2", 2)
	origin.Refuse()
	s.wantPull(nodetest.Named("app:2"), "Pulled mirror_fallback", alice)

	s.Restore()
	s.forgetTrouble()
	s.both("app:1", 2)
	nothingGet(origin.Registry, 403)
	mirror.deny("alice", true)
	mirror.deny("bob", true)
	s.wantPull(nodetest.Named("app:1"), "Failed forbidden", bob)
	s.wantPull(nodetest.Named("app:1"), "Failed forbidden", alice)
}

// TestMirrorsProofStaysAMirrors holds that what a mirror has given in need, to one caller or to
// everybody, is not the registry's word from then on, which answers HEAD to all, and gives nobody
// the image without credentials: where the registry alone counts, nobody has it.
func TestMirrorsProofStaysAMirrors(t *testing.T) {
	t.Parallel()
	origin, mirror := resolvertest.New(t), resolvertest.New(t)
	s := newSiteOf(t, origin, mirror, "")
	s.WriteRules("rule.toml", `[[rule]]
images = ["registry.test/**"]
namespaces = ["strict"]
resolve_from = "Origin"
access = "Strict"
[[rule]]
images = ["registry.test/**"]
`+originThenMirrors)
	inStrict := node.Pod("strict", "a")
	for repository, who := range map[string]node.PullOption{"forone": alice, "forall": nobody} {
		s := s.in(t)
		s.both(repository+":1", 1)
		ref := nodetest.Named(repository + ":1")
		origin.Refuse()
		open := func() {}
		if repository == "forone" {
			open = wantCredentials(mirror, everyMethod)
		}
		s.wantPull(ref, "Pulled mirror_fallback", who)
		open()

		s = s.in(t)
		undo := []func(){wantCredentials(mirror, everyMethod), wantCredentials(origin, http.MethodGet)}
		s.wantPull(ref, "Failed unproved", nobody, inStrict, policy("Never"))
		s.wantPull(ref, "Failed unauthorized", nobody)
		s.wantPull(ref, "Failed unproved", nobody, inStrict, policy("Never"))
		s.wantPull(ref, "Failed unproved", eve, inStrict, policy("Never"))
		for _, f := range undo {
			f()
		}
	}
}

const everyMethod = ""

// wantCredentials has a host want any credentials for a method. It returns how to end that.
func wantCredentials(host *resolvertest.Registry, method string) (undo func()) {
	return host.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if _, _, shown := r.BasicAuth(); !shown && (method == everyMethod || method == r.Method) {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
