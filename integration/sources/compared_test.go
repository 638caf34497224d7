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

// strict is a pod under a list of sources, free one without.
var strict, free = node.Pod("strict", "one"), node.Pod("free", "two")

// compared is a node with an image on top of an imported base, which a strict pod has had
// compared with the registry: app:1 and app:2, and by its digest.
func compared(t *testing.T) (m *mirrored, tag, byDigest string) {
	t.Helper()
	m = newMirrored(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.NativeRuntime())
	m.withoutMirror()
	base := resolvertest.Image(1, 1, 500)
	m.Import(nodetest.Named("base:1"), base)
	img := onTopOf(t, base, resolvertest.Image(2, 1, 500))
	tag, byDigest = nodetest.Named("app:1"), nodetest.Named("app@"+m.Push("app:1", img).String())
	m.Push("app:2", img)
	m.allowRegistry()
	m.MustPull(tag, strict)
	for _, name := range []string{tag, byDigest} {
		nodetest.Eventually(t, "the comparison is recorded on "+name, func() bool { return m.Labels(name)["compared"] == "true" })
	}
	return m, tag, byDigest
}

// allowRegistry has strict pods take images from the registry alone.
func (m *mirrored) allowRegistry() {
	m.T.Helper()
	m.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"registry.test/**\"]\nnamespaces = [\"strict\"]\nallowed_sources = [%q]\n", m.Registry.Host()))
}

// wantCompared holds that a strict pod has the image, and no byte of it is compared once more.
func (m *mirrored) wantCompared(outcome, ref string, opts ...node.PullOption) {
	m.T.Helper()
	m.Registry.Forget()
	mark := m.Mark()
	_, err := m.Pull(ref, append(opts, strict)...)
	got := m.Decision(mark, ref)
	if err != nil || got.Outcome != outcome {
		m.T.Errorf("%s: %s (%s), %v; want %s", ref, got.Outcome, got.Reason, err, outcome)
	}
	nodetest.Want(m.T, "blobs taken for "+ref, m.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)), 0)
	m.wantSources(ref, ref, m.Registry.Host()+"/app:1", "")
	nodetest.Want(m.T, "unknown sources", m.Labels(ref)["unknown-sources"], "")
}

// TestComparedImageStaysSo holds that an image which was compared stays one that an allowed host
// has, by whatever tag of it, and for whatever snapshotter, a pod has it that no list of sources
// is for.
func TestComparedImageStaysSo(t *testing.T) {
	t.Parallel()
	m, tag, byDigest := compared(t)
	m.MustPull(nodetest.Named("app:2"), free)
	m.MustPull(tag, free, node.RuntimeHandler("native"))
	m.wantCompared("Unchanged", nodetest.Named("app:2"))
	m.Registry.Refuse()
	m.wantCompared("UsedCached", tag)
	m.wantCompared("Present", byDigest, node.Hint("policy", "IfNotPresent"))
}

// TestComparedImageForAnotherSnapshotter holds that a comparison is good for each snapshotter.
func TestComparedImageForAnotherSnapshotter(t *testing.T) {
	t.Parallel()
	m, tag, _ := compared(t)
	m.wantCompared("Unchanged", tag, node.RuntimeHandler("native"))
	m.wantCompared("Unchanged", tag)
}
