// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// openMirror is a private registry behind a mirror that lets everybody in, on a
// node with rules by which the origin says what a tag is.
type openMirror struct {
	*nodetest.Node
	g      *guarded
	mirror *resolvertest.Registry
}

func newOpenMirror(t *testing.T) openMirror {
	t.Helper()
	n := nodetest.Prepare(t)
	n.WriteRules("origin.toml", `
[[rule]]
images = ["r.test/private/origin/*"]
resolve_from = "Origin"
[[rule]]
images = ["r.test/private/tight/*"]
resolve_from = "Origin"
hints = "Tighten"
`)
	n.Start()
	m := openMirror{n, newGuarded(t, resolvertest.WithTokenAuth, "r.test"), resolvertest.New(t)}
	n.Serve(m.g.name, m.g.Registry, m.mirror)
	return m
}

// scene gives a repository with an image that the mirror has too.
func (m openMirror) scene(repo string, seed int64) *scene {
	m.T.Helper()
	s := m.g.scene(m.T, m.Node, repo)
	s.digest = s.push("1", nodetest.Image(seed))
	m.PushTo(m.mirror, repo+":1", nodetest.Image(seed))
	return s
}

// TestAccessThroughMirrors holds that the word of a mirror that lets everybody
// in counts, unless the origin's is wanted.
func TestAccessThroughMirrors(t *testing.T) {
	t.Parallel()
	m := newOpenMirror(t)
	open := m.scene("private/open/app", 1)
	open.wantPull(nobody, "IfNotPresent", open.ref(":1"), "Pulled")
	for _, who := range []caller{nobody, wrong, eve, alice} {
		open.wantPull(who, "Never", open.ref(":1"), "Present")
		open.wantPull(who, "Never", open.digest, "Present")
	}

	m.wantOriginsWord(m.scene("private/origin/app", 2))

	// Under Tighten no pod can choose the mirror's word.
	tight := m.scene("private/tight/app", 4)
	tight.MustPull(tight.ref(":1"), alice.secret())
	for _, ref := range []string{tight.ref(":1"), tight.digest} {
		err := tight.MustFail(ref, []string{"pullwarden.io/resolve-from", "Origin"}, nobody.secret(), node.Hint("resolve-from", "Mirrors"))
		nodetest.WantNoWords(t, err, "unauthorized")
	}
}

// wantOriginsWord holds that the mirror gives content, and no access.
func (m openMirror) wantOriginsWord(strict *scene) {
	t := m.T
	t.Helper()
	for _, who := range []caller{nobody, wrong, eve} {
		if _, err := strict.Pull(strict.ref(":1"), who.secret()); err == nil {
			t.Errorf("%v gets %s", who, strict.ref(":1"))
		}
	}
	strict.MustPull(strict.ref(":1"), alice.secret())
	mirrored := m.mirror.Count(resolvertest.Of("GET", resolvertest.Blobs))
	if mirrored == 0 || m.g.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 {
		t.Error("the content does not come through the mirror")
	}
	for _, ref := range []string{strict.ref(":1"), strict.digest} {
		for _, who := range []caller{nobody, wrong, eve} {
			for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
				if _, err := strict.Pull(ref, who.secret(), node.Hint("policy", policy)); err == nil {
					t.Errorf("%v gets %s by %s", who, ref, policy)
				}
			}
		}
	}
	// The tag of the image goes by the origin, also where the mirror moved it.
	m.PushTo(m.mirror, strict.repo+":1", nodetest.Image(3))
	strict.MustPull(strict.ref(":1"), bob.secret(), node.Hint("policy", "Always"))
	nodetest.Want(t, "target", strict.ref("@"+strict.Target(strict.ref(":1")).String()), strict.digest)
}

// TestAccessAndMirrorsThatRefuse holds that a mirror's refusal takes no proof
// away while the origin has its say.
func TestAccessAndMirrorsThatRefuse(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	mirror := resolvertest.New(t)
	n.Serve(g.name, g.Registry, mirror)
	for _, code := range []int{401, 403} {
		mirror.Status(resolvertest.All, code)
		s := g.scene(t, n, fmt.Sprintf("private/app%d", code))
		s.digest = s.push("1", nodetest.Image(int64(code)))
		s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
		s.wantPull(alice, "Always", s.ref(":1"), "Unchanged")
		s.wantPull(nobody, "IfNotPresent", s.ref(":1"), "Failed")
		g.Refuse()
		s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "UsedCached")
		s.wantPull(alice, "Never", s.ref(":1"), "Present")
		s.wantPull(bob, "IfNotPresent", s.ref(":1"), "Failed")
		s.Restore()
		g.deny(alice.user, s.repo, true)
		s.wantPull(alice, "Always", s.ref(":1"), "Failed")
		s.wantPull(alice, "Never", s.ref(":1"), "Failed")
		n.Must(mirror.Restore())
	}
}

// TestAccessThroughAPrivateMirror holds that a mirror that wants credentials
// proves access to those that it knows.
func TestAccessThroughAPrivateMirror(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	origin := resolvertest.New(t)
	mirror := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	n.Serve(mirror.name, origin, mirror.Registry)
	origin.Refuse()
	s := mirror.scene(t, n, "private/app")
	byDigest := s.push("1", nodetest.Image(1))
	s.wantPull(alice, "IfNotPresent", s.ref(":1"), "Pulled")
	for _, who := range []caller{nobody, wrong, eve} {
		s.wantPull(who, "IfNotPresent", s.ref(":1"), "Failed")
		s.wantPull(who, "Never", byDigest, "Failed")
	}
	s.wantPull(bob, "IfNotPresent", byDigest, "Unchanged")
	s.wantPull(alice, "Never", byDigest, "Present")
}

// TestAgeByTheOrigin holds that a mirror's check of a tag, which somebody else may
// have asked for, is none where the origin says which digest a tag has.
func TestAgeByTheOrigin(t *testing.T) {
	t.Parallel()
	m := newOpenMirror(t)
	s := m.scene("private/origin/app", 2)
	s.wantPull(alice, "Always", s.digest, "Pulled")
	moved := s.push("1", nodetest.Image(3))
	s.wantPull(bob, "Always", s.ref(":1"), "~", node.Hint("resolve-from", "Mirrors"))
	nodetest.Want(t, "target by the mirror", s.ref("@"+s.Target(s.ref(":1")).String()), s.digest)

	s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "Pulled", node.Hint("max-age", "1h"))
	nodetest.Want(t, "target by the origin", s.ref("@"+s.Target(s.ref(":1")).String()), moved)
	s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "Fresh", node.Hint("max-age", "1h"))
}
