// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// onTopOf adds the layers of another image to a base image.
func onTopOf(t *testing.T, base, other v1.Image) v1.Image {
	t.Helper()
	layers, err := other.Layers()
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestSourceOfSharedLayers pulls an image on top of a base that is there: where
// the base came from is a source of it too.
func TestSourceOfSharedLayers(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	base := resolvertest.Image(1, 1, 500)
	m.both("base:1", base)
	m.MustPull(nodetest.Named("base:1"))
	m.wantSources("the base", nodetest.Named("base:1"), m.mirror.Host()+"/base:1", "")

	m.withoutMirror()
	dgst := m.Push("app:1", onTopOf(t, base, resolvertest.Image(2, 1, 500)))
	for _, what := range []string{"first pull", "nothing new"} {
		m.MustPull(nodetest.Named("app:1"))
		for _, name := range []string{nodetest.Named("app:1"), nodetest.Named("app@" + dgst.String())} {
			m.wantSources(what, name, m.Registry.Host()+"/app:1", m.Registry.Host()+","+m.mirror.Host())
		}
	}

	// A rule that allows the registry alone does not take the base from the
	// mirror, not even the one that is there.
	m.WriteRules("rule.toml", "[[rule]]\nimages = [\"**/strict\"]\nallowed_sources = [\""+m.Registry.Host()+"\"]\n")
	m.Push("strict:1", onTopOf(t, base, resolvertest.Image(3, 1, 500)))
	nodetest.Eventually(t, "the rule counts", func() bool {
		m.MustPull(nodetest.Named("strict:1"))
		return m.Labels(nodetest.Named("strict:1"))["content-sources"] == ""
	})
	m.wantSources("under a rule", nodetest.Named("strict:1"), m.Registry.Host()+"/strict:1", "")
}

// TestSourceOfLayersOnImports pulls an image on top of a base that was imported:
// that part of it came from nobody knows where is on its record, and a rule that
// allows the registry alone has the whole image compared.
func TestSourceOfLayersOnImports(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	m.withoutMirror()
	base := resolvertest.Image(1, 1, 500)
	m.Import(nodetest.Named("base:1"), base)
	m.Push("app:1", onTopOf(t, base, resolvertest.Image(2, 1, 500)))
	ref := nodetest.Named("app:1")
	m.MustPull(ref)
	m.wantSources("on an import", ref, m.Registry.Host()+"/app:1", "")
	nodetest.Want(t, "unknown sources", m.Labels(ref)["unknown-sources"], "true")

	m.WriteRules("rule.toml", "[[rule]]\nimages = [\"**\"]\nallowed_sources = [\""+m.Registry.Host()+"\"]\n")
	nodetest.Eventually(t, "the image is compared, and that is recorded", func() bool {
		m.MustPull(ref)
		return m.Labels(ref)["unknown-sources"] == ""
	})
	m.wantSources("compared", ref, m.Registry.Host()+"/app:1", "")
	m.MustPull(ref, node.Hint("policy", "Never"))
}
