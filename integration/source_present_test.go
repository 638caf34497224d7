// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/containerd/containerd/v2/core/images"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestSourceOfAConfirmedImage holds that a check which finds nothing new says
// who confirmed the digest, and leaves the source as it is.
func TestSourceOfAConfirmedImage(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	ref := named("app:1")
	dgst := m.both("app:1", image(1))
	m.mustPull(ref)
	source := m.mirror.Host() + "/app:1"
	m.wantSources("first pull", ref, source, "")
	want(t, "verified by", m.labels(ref)["verified-by"], m.mirror.Host())

	m.mirror.Refuse()
	m.mustPull(ref)
	canonical := named("app@" + dgst.String())
	for _, name := range []string{ref, canonical} {
		eventually(t, "the registry is who confirmed "+name, func() bool { return m.labels(name)["verified-by"] == m.r.Host() })
		m.wantSources("nothing new", name, source, "")
	}
	want(t, "content that the registry was asked for", m.r.Count(resolvertest.Of("GET", resolvertest.All)), 0)
}

// TestSourceOfWhatIsThere pulls what is on the node already. The bytes came from
// where they came from then, and not from the host that answers now.
func TestSourceOfWhatIsThere(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	first := m.both("app:1", image(1))
	m.both("other/app:2", image(1))
	ref, source := named("app:1"), m.mirror.Host()+"/app:1"
	m.mustPull(ref)
	m.wantSources("first pull", ref, source, "")

	m.mirror.Refuse()
	m.r.Forget()
	again := func(what, ref string) {
		t.Helper()
		mark := m.mark()
		m.mustPull(ref)
		want(t, what+": outcome", m.decision(mark, ref).outcome, "Pulled")
		m.wantSources(what, ref, source, "")
		want(t, what+": verified by", m.labels(ref)["verified-by"], m.r.Host())
		isRunnable(m.daemon, ref)
	}
	if err := m.client.ImageService().Delete(t.Context(), ref, images.SynchronousDelete()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "CRI has forgotten the tag", func() bool { return m.imageStatus(ref).GetImage() == nil })
	again("a record that was removed", ref)
	again("the same content under another name", named("other/app:2"))
	want(t, "manifests that the registry was asked for", m.r.Count(resolvertest.Of("GET", resolvertest.Manifests)), 0)

	m.push("app:1", image(2))
	m.mustPull(ref)
	m.wantSources("a change", ref, m.r.Host()+"/app:1", "")
	if err := m.r.Tag(t.Context(), "app", "1", first); err != nil {
		t.Fatal(err)
	}
	again("a rollback", ref)
}

// TestSourceOfAnImport holds that nobody served what was imported, and nothing
// breaks on it.
func TestSourceOfAnImport(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	ref := named("app:1")
	img := image(1)
	dgst := m.both("app:1", img)
	m.importImage(ref, img)
	eventually(t, "CRI knows the image", func() bool { return m.imageStatus(ref).GetImage() != nil })
	want(t, "labels of an import", len(m.labels(ref)), 0)
	status := m.imageStatus(ref)
	want(t, "annotations of an import", len(status.GetImage().GetSpec().GetAnnotations()), 0)
	want(t, "information on an import", status.GetInfo()["pullwarden"], "")

	// It is confirmed now, but still nobody has served it.
	mark := m.mark()
	m.mustPull(ref)
	want(t, "outcome", m.decision(mark, ref).outcome, "Unchanged")
	eventually(t, "the import is verified", func() bool { return m.labels(ref)["verified-digest"] == dgst.String() })
	m.wantSources("a confirmed import", ref, "", "")

	// Nor under another name, which is pulled.
	m.both("copy:1", img)
	m.mustPull(named("copy:1"))
	m.wantSources("a copy", named("copy:1"), "", "")
	want(t, "copy verified by", m.labels(named("copy:1"))["verified-by"], m.mirror.Host())
	want(t, "manifests that the mirror was asked for", m.mirror.Count(resolvertest.Of("GET", resolvertest.Manifests)), 0)
}
