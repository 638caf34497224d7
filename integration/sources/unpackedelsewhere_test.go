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
