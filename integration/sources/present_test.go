// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"testing"

	"github.com/containerd/containerd/v2/core/images"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestSourceOfAConfirmedImage holds that a check which finds nothing new says
// who confirmed the digest, and leaves the source as it is.
func TestSourceOfAConfirmedImage(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	ref := nodetest.Named("app:1")
	dgst := m.both("app:1", nodetest.Image(1))
	m.MustPull(ref)
	source := m.mirror.Host() + "/app:1"
	m.wantSources("first pull", ref, source, "")
	nodetest.Want(t, "verified by", m.Labels(ref)["verified-by"], m.mirror.Host())

	m.mirror.Refuse()
	m.MustPull(ref)
	canonical := nodetest.Named("app@" + dgst.String())
	for _, name := range []string{ref, canonical} {
		nodetest.Eventually(t, "the registry is who confirmed "+name, func() bool { return m.Labels(name)["verified-by"] == m.Registry.Host() })
		m.wantSources("nothing new", name, source, "")
	}
	nodetest.Want(t, "content that the registry was asked for", m.Registry.Count(resolvertest.Of("GET", resolvertest.Manifests))+m.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)), 0)
}

// TestSourceOfWhatIsThere pulls what is on the node already. The bytes came from
// where they came from then, and not from the host that answers now. By the name of another
// repository the documents come once more.
func TestSourceOfWhatIsThere(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	first := m.both("app:1", nodetest.Image(1))
	m.both("other/app:2", nodetest.Image(1))
	ref, source := nodetest.Named("app:1"), m.mirror.Host()+"/app:1"
	m.MustPull(ref)
	m.wantSources("first pull", ref, source, "")

	m.mirror.Refuse()
	m.Registry.Forget()
	again := func(what, ref, source, content string) {
		t.Helper()
		mark := m.Mark()
		m.MustPull(ref)
		nodetest.Want(t, what+": outcome", m.Decision(mark, ref).Outcome, "Pulled")
		m.wantSources(what, ref, source, content)
		nodetest.Want(t, what+": verified by", m.Labels(ref)["verified-by"], m.Registry.Host())
		m.WantRunnable(ref)
	}
	if err := m.Client.ImageService().Delete(t.Context(), ref, images.SynchronousDelete()); err != nil {
		t.Fatal(err)
	}
	nodetest.Eventually(t, "CRI has forgotten the tag", func() bool { return m.Status(ref).GetImage() == nil })
	again("a record that was removed", ref, source, "")
	hosts := m.mirror.Host() + "," + m.Registry.Host()
	again("the same content under another name", nodetest.Named("other/app:2"), m.Registry.Host()+"/other/app:2", hosts)
	m.wantSources("the first name", ref, source, "")
	nodetest.Want(t, "manifests that the registry was asked for by digest", m.Registry.Count(byDigest), 0)

	m.Push("app:1", nodetest.Image(2))
	m.MustPull(ref)
	m.wantSources("a change", ref, m.Registry.Host()+"/app:1", "")
	m.Tag("app", "1", first)
	again("a rollback", ref, source, "")
}

// TestSourceOfAnImport holds that nobody served what was imported, and nothing
// breaks on it.
func TestSourceOfAnImport(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	ref := nodetest.Named("app:1")
	img := nodetest.Image(1)
	dgst := m.both("app:1", img)
	m.Import(ref, img)
	nodetest.Want(t, "labels of an import", len(m.Labels(ref)), 0)
	status := m.Status(ref)
	nodetest.Want(t, "annotations of an import", len(status.GetImage().GetSpec().GetAnnotations()), 0)
	nodetest.Want(t, "information on an import", status.GetInfo()["pullwarden"], "")

	// It is confirmed now, but still nobody has served it.
	mark := m.Mark()
	m.MustPull(ref)
	nodetest.Want(t, "outcome", m.Decision(mark, ref).Outcome, "Unchanged")
	nodetest.Eventually(t, "the import is verified", func() bool { return m.Labels(ref)["verified-digest"] == dgst.String() })
	m.wantSources("a confirmed import", ref, "", "")

	// Under another name, which is pulled, the mirror has served the documents, and nobody the
	// layers.
	m.both("copy:1", img)
	m.MustPull(nodetest.Named("copy:1"))
	m.wantSources("a copy", nodetest.Named("copy:1"), m.mirror.Host()+"/copy:1", "")
	nodetest.Want(t, "a part of the copy is of unknown sources", m.Labels(nodetest.Named("copy:1"))["unknown-sources"] != "", true)
	m.wantSources("the import", ref, "", "")
	nodetest.Want(t, "copy verified by", m.Labels(nodetest.Named("copy:1"))["verified-by"], m.mirror.Host())
	nodetest.Want(t, "manifests that the mirror was asked for by digest", m.mirror.Count(byDigest), 0)
}
