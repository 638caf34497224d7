// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestMirrorFallbackByHint holds which values of resolve-from a hint may choose, and
// that none may name an authority.
func TestMirrorFallbackByHint(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t, nodetest.Section(nodetest.IfDigestChanged, `hints = "Tighten"`))
	n.WriteRules("rule.toml", `
[[rule]]
images = ["registry.test/mirrors/*"]
resolve_from = "Mirrors"
[[rule]]
images = ["registry.test/then/*"]
resolve_from = "OriginThenMirrors"
[[rule]]
images = ["registry.test/origin/*"]
resolve_from = "Origin"
`)
	n.Start()
	n.Registry = resolvertest.New(t)
	s := site{n, resolvertest.New(t)}
	s.forgetTrouble()
	for _, repo := range []string{"mirrors", "then", "origin"} {
		s.both(repo+"/app:1", 1)
		s.MustPull(nodetest.Named(repo + "/app:1"))
	}
	s.Registry.Refuse()
	from := func(value string) node.PullOption { return node.Hint("resolve-from", value) }
	ref := nodetest.Named("mirrors/app:1")
	s.wantPull(ref, "Unchanged same_digest", from("Mirrors"))
	s.wantPull(ref, "UsedCached mirror_fallback", from("OriginThenMirrors"))
	s.wantPull(ref, "Failed unreachable", from("Origin")) // a mirror's proof is none there
	ref = nodetest.Named("then/app:1")
	s.wantPull(ref, "Failed bad_hint", from("Mirrors"))
	s.wantPull(ref, "UsedCached unreachable", from("Origin"))
	s.wantPull(ref, "UsedCached mirror_fallback", from("OriginThenMirrors"))
	ref = nodetest.Named("origin/app:1")
	s.wantPull(ref, "Failed bad_hint", from("Mirrors"))
	s.wantPull(ref, "Failed bad_hint", from("OriginThenMirrors"))
	s.wantPull(ref, "Failed bad_hint", node.Hint("authority", s.mirror.Host()))
}

// TestMirrorFallbackByDigest holds that a digest is had from a mirror in the place of
// the origin as well.
func TestMirrorFallbackByDigest(t *testing.T) {
	t.Parallel()
	s := newSite(t, originThenMirrors)
	ref := nodetest.Named("app@" + s.both("app:1", 1))
	s.Registry.Refuse()
	s.wantPull(ref, "Pulled mirror_fallback")
	s.wantLabels(ref, map[string]string{"stale-reason": "mirror_fallback", "verified-at": ""})
	s.wantPull(ref, "Present digest")
}

// TestMirrorFallbackOfLegacyMirrors holds that CRI's deprecated registry.mirrors
// answer in the place of the origin as those of hosts.toml do.
func TestMirrorFallbackOfLegacyMirrors(t *testing.T) {
	t.Parallel()
	origin, mirror := resolvertest.New(t), resolvertest.New(t)
	n := nodetest.Start(t, nodetest.Section(nodetest.IfDigestChanged, `resolve_from = "OriginThenMirrors"`),
		nodetest.WithoutHostsDirectories(), nodetest.Tables(fmt.Sprintf(`
[plugins.'io.containerd.cri.v1.images'.registry.mirrors.'%s']
  endpoint = ['%s']
`, origin.Host(), mirror.URL())))
	n.Registry = origin
	s := site{n, mirror}
	s.both("app:1", 1)
	ref := origin.Host() + "/app:1"
	s.wantPull(ref, "Pulled absent")
	nodetest.Want(t, "HEADs to the mirror", mirror.Count(resolvertest.Of("HEAD", resolvertest.All)), 0)
	origin.Refuse()
	s.wantPull(ref, "UsedCached mirror_fallback")
	s.PushTo(mirror, "app:2", nodetest.Image(2))
	s.wantPull(origin.Host()+"/app:2", "Pulled mirror_fallback")
}

// TestMirrorFallbackInStatus holds that the command line and the metrics tell of it.
func TestMirrorFallbackInStatus(t *testing.T) {
	t.Parallel()
	s := newSite(t, originThenMirrors)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.MustPull(ref)
	s.Registry.Refuse()
	s.wantPull(ref, "UsedCached mirror_fallback")
	s.wantLabels(ref, map[string]string{"stale-reason": "mirror_fallback"})
	r := s.Command("status", "--stale", "-o", "json")
	nodetest.Want(t, "exit code", r.Code, 1)
	for _, word := range []string{ref, "mirror_fallback"} {
		nodetest.Want(t, "status has "+word, strings.Contains(r.Stdout, word), true)
	}
}
