// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"net/http"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// promises hold under every setting.
var promises = []struct {
	what string
	hold func(*site)
}{
	{"a forbidden mirror is not asked", forbiddenMirror},
	{"sources are recorded", sources},
	{"layers of a forbidden mirror are not built upon", sharedLayers},
	{"a check is one request", checks},
	{"the cached image is used as the policy says", fallback},
	{"access is proved", access},
	{"every name is there at once", names},
	{"a second snapshotter", secondSnapshotter},
	{"a container runs", container},
	{"a kill in a pull", kill},
}

func TestPromises(t *testing.T) {
	t.Parallel()
	for _, setting := range node.Settings() {
		t.Run(setting.Name, func(t *testing.T) {
			t.Parallel()
			holdAll(t, newSite(t, setting))
		})
	}
	t.Run("mirrors", func(t *testing.T) {
		t.Parallel()
		holdAll(t, newSiteWithMirrors(t))
	})
}

func holdAll(t *testing.T, s *site) {
	t.Helper()
	nodetest.Want(t, "warnings of pullwarden", len(s.LogLines(0, "pullwarden: ", `"level":"warning"`)), 0)
	for _, p := range promises {
		t.Run(p.what, func(t *testing.T) { p.hold(s.in(t)) })
	}
}

// forbiddenMirror pulls under a rule without the mirror, by its tag and by its
// digest, before and after a change that the mirror has not seen.
func forbiddenMirror(s *site) {
	s.both("strict/app:1", nodetest.Image(1))
	ref := s.ref("strict/app:1")
	s.forget()
	first := s.MustPull(ref, alice)
	s.wantSources("strict/app:1", s.Registry.Host()+"/strict/app:1", "")

	changed := s.Push("strict/app:1", nodetest.Image(2))
	mark := s.Mark()
	second := s.MustPull(ref, alice)
	nodetest.Want(s.T, "the old image is returned", second == first, false)
	nodetest.Want(s.T, "target", s.Target(ref), changed)
	nodetest.Want(s.T, "verified digest", s.Labels(ref)["verified-digest"], changed.String())
	nodetest.Want(s.T, "outcome", s.Decision(mark, ref).Outcome, "Pulled")
	_, anonymous := s.Labels(ref)["access.anonymous"]
	nodetest.Want(s.T, "access for everybody", anonymous, false)

	s.Registry.Forget()
	s.MustPull(ref, alice)
	nodetest.Want(s.T, "requests of a check", s.Requests(), "HEAD manifests")
	s.MustPull(s.ref("strict/app@"+changed.String()), alice)
	s.Registry.Refuse()
	s.MustFail(ref, []string{s.Registry.Host()}, alice)
	s.Restore()
	s.wantMirrorNotAsked("under the rule")
	s.WantRunnable(ref)
}

// sources pulls through the mirror, and a part of it past it.
func sources(s *site) {
	s.both("app:1", nodetest.Image(3))
	s.MustPull(s.ref("app:1"), alice)
	s.wantSources("app:1", s.mirror.Host()+"/app:1", "")
	nodetest.Want(s.T, "pull-source as CRI shows it", s.Annotations(s.ref("app:1"))["pull-source"], s.mirror.Host()+"/app:1")

	dgst := s.both("part:1", nodetest.Image(4))
	undo := s.mirror.Status(resolvertest.Blobs, 404)
	s.MustPull(s.ref("part:1"), alice)
	undo()
	for _, name := range []string{"part:1", "part@" + dgst.String()} {
		s.wantSources(name, s.mirror.Host()+"/part:1", s.mirror.Host()+","+s.Registry.Host())
		s.WantRunnable(s.ref(name))
	}
}

// onTopOf adds a layer to an image.
func onTopOf(n *nodetest.Node, base v1.Image, seed int64) v1.Image {
	n.T.Helper()
	layers, err := resolvertest.Image(seed, 1, 500).Layers()
	n.Must(err)
	img, err := mutate.AppendLayers(base, layers...)
	n.Must(err)
	return img
}

// sharedLayers pulls images on top of a base that came from the mirror, and
// whose layers may be gone since.
func sharedLayers(s *site) {
	base := resolvertest.Image(5, 2, 500)
	s.both("base:1", base)
	s.MustPull(s.ref("base:1"), alice)
	s.CollectGarbage()

	s.Push("above:1", onTopOf(s.Node, base, 6))
	s.MustPull(s.ref("above:1"), alice)
	s.wantSources("above:1", s.Registry.Host()+"/above:1", s.mirror.Host()+","+s.Registry.Host())

	s.Push("team/strict:1", onTopOf(s.Node, base, 7))
	s.forget()
	s.MustPull(s.ref("team/strict:1"), alice)
	nodetest.Eventually(s.T, "what was compared is recorded", func() bool { return s.Labels(s.ref("team/strict:1"))["content-sources"] == "" })
	s.wantSources("team/strict:1", s.Registry.Host()+"/team/strict:1", "")
	s.wantMirrorNotAsked("under the rule")
	layers := s.Registry.Count(func(r resolvertest.Request) bool {
		return resolvertest.Of(http.MethodGet, resolvertest.Blobs)(r) && r.Status == http.StatusOK
	})
	nodetest.Want(s.T, "the layers of the mirror were compared", layers >= 3+2, true)
	img, err := s.Client.GetImage(s.T.Context(), s.ref("team/strict:1"))
	s.Must(err)
	s.Must(s.Snapshotable(s.T.Context(), img, "overlayfs"))
}

// checks holds that an unchanged image costs a HEAD, and that a change is pulled.
func checks(s *site) {
	ref := s.ref("checked:1")
	s.both("checked:1", nodetest.Image(8))
	id := s.MustPull(ref, alice)
	s.forget()
	mark := s.Mark()
	nodetest.Want(s.T, "image ID", s.MustPull(ref, alice), id)
	nodetest.Want(s.T, "outcome", s.Decision(mark, ref).Outcome, "Unchanged")
	nodetest.Want(s.T, "requests", s.Registry.Count(resolvertest.NoProbe)+s.mirror.Count(resolvertest.Of("HEAD", resolvertest.Manifests)), 1)
	nodetest.Want(s.T, "requests of the mirror", s.mirror.Count(resolvertest.NoProbe), 1)
	moved := s.both("checked:1", nodetest.Image(9))
	s.MustPull(ref, alice)
	nodetest.Want(s.T, "target", s.Target(ref), moved)
	s.WantRunnable(ref)
}

// fallback lets both hosts go down.
func fallback(s *site) {
	ref := s.ref("fallback:1")
	s.both("fallback:1", nodetest.Image(10))
	id := s.MustPull(ref, alice)
	s.Registry.Refuse()
	s.mirror.Refuse()
	mark := s.Mark()
	nodetest.Want(s.T, "image ID", s.MustPull(ref, alice), id)
	nodetest.Want(s.T, "outcome", s.Decision(mark, ref).Outcome, "UsedCached")
	err := s.MustFail(ref, nil, alice, node.Hint("policy", "Always"))
	nodetest.Want(s.T, "RegistryUnavailable", nodetest.RegistryUnavailable(err), true)
	s.Restore()
	s.Must(s.mirror.Restore())
	nodetest.Eventually(s.T, "the registry is asked again", func() bool {
		_, err := s.Pull(ref, alice, node.Hint("policy", "Always"))
		return err == nil
	})
}

// access holds that a proof of one caller is none of another.
func access(s *site) {
	bob, wrong := node.Credentials("bob", "bob's secret"), node.Credentials("alice", "a guess")
	ref := s.ref("private:1")
	dgst := s.both("private:1", nodetest.Image(11))
	s.MustFail(ref, nil, wrong)
	s.MustPull(ref, alice)
	for _, name := range []string{ref, s.ref("private@" + dgst.String())} {
		for _, other := range []node.PullOption{bob, wrong, node.Auth(nil)} {
			s.MustFail(name, nil, other, node.Hint("policy", "Never"))
		}
		s.MustPull(name, alice, node.Hint("policy", "Never"))
	}
	s.MustFail(ref, nil, wrong, node.Hint("policy", "IfNotPresent"))
	s.MustPull(ref, bob, node.Hint("policy", "IfNotPresent"))
	s.MustPull(ref, bob, node.Hint("policy", "Never"))
}
