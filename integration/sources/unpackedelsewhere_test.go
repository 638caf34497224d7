// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestUnpackingTakesOverNoSources holds that an image which is unpacked by another snapshotter, for whomever, and of which
// nothing is fetched, stays one from the allowed registry by its tag: also where a pod without a list of sources has pulled
// it by another tag from a mirror.
func TestUnpackingTakesOverNoSources(t *testing.T) {
	t.Parallel()
	for _, isDown := range []bool{false, true} {
		for who, by := range map[string]node.PullOption{"a strict pod": strict, "another": free} {
			t.Run(fmt.Sprintf("for %s, the registry is down: %v", who, isDown), func(t *testing.T) {
				t.Parallel()
				m, as := newPrivate(t, []string{"one", "two"}, nodetest.Section(nodetest.IfDigestChanged), nodetest.NativeRuntime())
				img, tag := resolvertest.Image(1, 2, 500), nodetest.Named("app:2")
				m.both("app:1", img)
				m.both("app:2", img)
				m.MustPull(tag, strict, as("one"))
				m.pullsElsewhere(nodetest.Named("app:1"), as("two"))
				was := m.Labels(tag)["content-sources"]
				if isDown {
					m.Registry.Refuse()
				}
				m.MustPull(tag, by, as("one"), node.RuntimeHandler("native"))
				nodetest.Want(t, "content-sources", m.Labels(tag)["content-sources"], was)
				m.Registry.Forget()
				m.MustPull(tag, strict, as("one"))
				if blobs := m.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)); blobs > 0 {
					t.Errorf("it was compared: %d blobs were fetched", blobs)
				}
			})
		}
	}
}

// TestLayersFetchedAgainForgetNoMirror holds that a mirror which has delivered the image by another tag stays on the record of
// repository@digest, where discarded layers are fetched from the allowed registry for another snapshotter.
func TestLayersFetchedAgainForgetNoMirror(t *testing.T) {
	t.Parallel()
	m, as := newPrivate(t, []string{"one", "two"}, nodetest.Section(nodetest.IfDigestChanged), nodetest.NativeRuntime(), nodetest.CRIImages("discard_unpacked_layers = true"))
	img, tag := resolvertest.Image(1, 2, 500), nodetest.Named("app:2")
	byDigest := nodetest.Named("app@" + m.both("app:1", img).String())
	m.both("app:2", img)
	m.MustPull(tag, strict, as("one"))
	m.eventuallyDiscarded(img)
	m.pullsElsewhere(nodetest.Named("app:1"), as("two"))
	m.MustPull(tag, strict, as("one"), node.RuntimeHandler("native"))
	m.wantStrict(byDigest, "Pulled (source)", as("one"))
}

// TestUnpackingAddsNoMirrorByDigest holds that by its digest an image stays one from the allowed registry, which has delivered
// it since, where it is unpacked by the tag by which a mirror once did.
func TestUnpackingAddsNoMirrorByDigest(t *testing.T) {
	t.Parallel()
	m, as := newPrivate(t, []string{"one", "two", "three"}, nodetest.Section(nodetest.IfDigestChanged), nodetest.NativeRuntime())
	byDigest, mirrored := m.thriceNamed(1), nodetest.Named("app:1")
	m.MustPull(nodetest.Named("app:2"), strict, as("one"))
	m.pullsElsewhere(mirrored, as("two"))
	m.MustPull(nodetest.Named("app:3"), strict, as("three"))
	m.MustPull(mirrored, free, as("two"), node.RuntimeHandler("native"))
	m.Registry.Refuse()
	m.wantStrict(byDigest, "Present (digest)", as("three"))
}

// TestUnpackingOfAComparedTag holds that a mirror which has delivered an image by its digest stays on that record, where
// it is unpacked by a tag for which it was compared before.
func TestUnpackingOfAComparedTag(t *testing.T) {
	t.Parallel()
	m, as := newPrivate(t, []string{"one", "two", "three"}, nodetest.Section(nodetest.IfDigestChanged), nodetest.NativeRuntime())
	byDigest, tag := m.thriceNamed(1), nodetest.Named("app:2")
	m.MustPull(tag, free, as("three"))
	m.wantStrict(tag, "Pulled (source)", as("one"))
	m.Must(m.Client.ImageService().Delete(t.Context(), byDigest))
	m.pullsElsewhere(nodetest.Named("app:1"), as("two"))
	m.MustPull(tag, free, as("one"), node.RuntimeHandler("native"))
	m.wantStrict(byDigest, "Pulled (source)", as("one"))
}

// TestObservedPullForgetsNoMirror holds the same where containerd itself pulls the image, and finds all of it.
func TestObservedPullForgetsNoMirror(t *testing.T) {
	t.Parallel()
	m, as := newPrivate(t, []string{"one", "two"}, nodetest.Section(nodetest.IfDigestChanged))
	m.observe()
	for i, observed := range []string{"app:1", "app:2", "app:3"} {
		byDigest := m.thriceNamed(int64(i))
		m.MustPull(nodetest.Named("app:2"), strict, as("one"))
		m.pullsElsewhere(nodetest.Named("app:1"), as("two"))
		m.MustPull(nodetest.Named(observed), node.Pod("observed", "three"), as("one"))
		m.wantStrict(byDigest, "Pulled (source)", as("one"))
	}
}

// TestObservedTagOfAComparedImage holds that a comparison holds for a tag that containerd itself pulls later, too.
func TestObservedTagOfAComparedImage(t *testing.T) {
	t.Parallel()
	m, as := newPrivate(t, []string{"one", "two"}, nodetest.Section(nodetest.IfDigestChanged))
	m.observe()
	m.thriceNamed(1)
	m.pullsElsewhere(nodetest.Named("app:1"), as("two"))
	m.wantStrict(nodetest.Named("app:2"), "Pulled (absent)", as("one"))
	mark := m.Mark()
	m.MustPull(nodetest.Named("app:3"), node.Pod("observed", "three"), as("two"))
	m.Told(mark, nodetest.Named("app:3"))
	m.Registry.Forget()
	m.wantStrict(nodetest.Named("app:3"), "Unchanged (same_digest)", as("one"))
	nodetest.Want(t, "blobs that were compared", m.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)), 0)
}

// thriceNamed pushes an image to registry and mirror, as app:1, app:2 and app:3, and returns its name by digest.
func (m *mirrored) thriceNamed(seed int64) string {
	m.T.Helper()
	img := resolvertest.Image(seed, 2, 500)
	for _, ref := range []string{"app:1", "app:2", "app:3"} {
		m.both(ref, img)
	}
	return nodetest.Named("app@" + m.Push("app:3", img).String())
}

// observe has containerd itself pull for pods of the namespace "observed".
func (m *mirrored) observe() {
	m.T.Helper()
	m.WriteRules("20.toml", "[[rule]]\nimages = [\"registry.test/**\"]\nnamespaces = [\"observed\"]\nmode = \"Observe\"\n")
}
