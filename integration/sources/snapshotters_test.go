// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"testing"

	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAllowedSourcesOfAnotherSnapshotter has layers from a mirror in one snapshotter, and has the
// same image pulled for another one from a host that is allowed. Pods of the first snapshotter have
// it compared all the same.
func TestAllowedSourcesOfAnotherSnapshotter(t *testing.T) {
	t.Parallel()
	m := newMirrored(t, nodetest.NativeRuntime(), nodetest.CRIImages("discard_unpacked_layers = true"))
	img := nodetest.Image(1)
	m.both("free:1", img)
	m.both("app:1", img)
	m.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"registry.test/app\"]\nallowed_sources = [%q]\n", m.Registry.Host()))
	m.MustPull(nodetest.Named("free:1"))
	m.wantSources("from a mirror", nodetest.Named("free:1"), m.mirror.Host()+"/free:1", "")
	m.eventuallyDiscarded(img)

	ref := nodetest.Named("app:1")
	m.MustPull(ref, node.RuntimeHandler("native"))
	m.wantSources("for another snapshotter", ref, m.Registry.Host()+"/app:1", "")
	m.Registry.Refuse()
	m.MustFail(ref, nil, node.Hint("policy", "IfNotPresent"))
	m.Restore()
	for _, want := range []string{"Pulled (source)", "Unchanged (same_digest)"} {
		mark := m.Mark()
		m.MustPull(ref)
		got := m.Decision(mark, ref)
		nodetest.Want(t, "outcome", fmt.Sprintf("%s (%s)", got.Outcome, got.Reason), want)
	}
	m.Registry.Forget()
	m.MustPull(ref, node.RuntimeHandler("native"))
	nodetest.Want(t, "blobs taken for the other snapshotter", m.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)), 0)
}

// eventuallyDiscarded waits until the layers of an image are gone from the content store.
func (m *mirrored) eventuallyDiscarded(img v1.Image) {
	m.T.Helper()
	layers, err := img.Layers()
	m.Must(err)
	for _, l := range layers {
		hash, err := l.Digest()
		m.Must(err)
		nodetest.Eventually(m.T, "layer "+hash.String()+" is discarded", func() bool {
			_, err := m.Client.ContentStore().Info(m.T.Context(), digest.Digest(hash.String()))
			return errdefs.IsNotFound(err)
		})
	}
}
