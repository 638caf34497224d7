// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	containerd "github.com/containerd/containerd/v2/client"
	transferimage "github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/containerd/v2/core/transfer/registry"
	"github.com/containerd/platforms"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// clientPull pulls as ctr does, with options of its command line.
func (d *daemon) clientPull(ref string, opts ...registry.Opt) {
	d.t.Helper()
	src, err := registry.NewOCIRegistry(d.t.Context(), ref, opts...)
	if err != nil {
		d.t.Fatal(err)
	}
	p := platforms.DefaultSpec()
	err = d.client.Transfer(d.t.Context(), src, transferimage.NewStore(ref, transferimage.WithPlatforms(p), transferimage.WithUnpack(p, "")))
	if err != nil {
		d.fatal("pull %s as a client: %v", ref, err)
	}
}

// TestSourceOfClientPulls pulls with the transfer service past CRI: the sources
// are recorded, and nothing is said of checks that nobody made.
func TestSourceOfClientPulls(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	plain := m.r.Host() + "/plain:1"
	m.both("app:1", image(1))
	m.push("plain:1", image(2))
	m.daemon.push(m.mirror, "proxy/path:1", image(3))
	m.both("part:1", image(4))

	own := func(ref, source, content string) {
		t.Helper()
		eventually(t, "CRI knows "+ref, func() bool { return m.imageStatus(ref).GetImage() != nil })
		m.wantSources(ref, ref, source, content)
		got := m.labels(ref)
		want(t, ref+" is pulled at some time", got["pulled-at"] != "", true)
		delete(got, "pulled-at")
		delete(got, "pull-source")
		delete(got, "content-sources")
		want(t, "other labels of "+ref, fmt.Sprint(got), "map[]")
		isRunnable(m.daemon, ref)
	}
	dir := registry.WithHostDir(m.hostsDirs()[0])
	m.clientPull(named("app:1"), dir)
	own(named("app:1"), m.mirror.Host()+"/app:1", "")

	m.clientPull(plain, registry.WithDefaultScheme("http"))
	own(plain, plain, "")

	m.hostsTOML("path.test", m.server(m.r)+capable(m.mirror, "/v2/proxy", `"pull", "resolve"`, "override_path = true"))
	m.clientPull("path.test/path:1", dir)
	own("path.test/path:1", m.mirror.Host()+"/proxy/path:1", "")

	refuse(m.mirror, 404, of(partsOf(t, image(4)).layers...))
	m.clientPull(named("part:1"), dir)
	own(named("part:1"), m.mirror.Host()+"/part:1", m.mirror.Host()+","+m.r.Host())

	// The same again, of which all is there.
	m.mirror.Refuse()
	m.clientPull(named("app:1"), dir)
	own(named("app:1"), m.mirror.Host()+"/app:1", "")

	// A change.
	m.push("app:1", image(5))
	m.clientPull(named("app:1"), dir)
	own(named("app:1"), m.r.Host()+"/app:1", "")
}

// TestSourceOfAClientPullAfterCRI holds that what CRI's checks found out stays
// where a client pulls the same digest.
func TestSourceOfAClientPullAfterCRI(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	ref := named("app:1")
	dgst := m.both("app:1", image(1))
	m.mustPull(ref)
	before := m.labels(ref)
	m.clientPull(ref, registry.WithHostDir(m.hostsDirs()[0]))
	after := m.labels(ref)
	for key, value := range before {
		if key != "pulled-at" {
			want(t, key, after[key], value)
		}
	}
	want(t, "verified digest", after["verified-digest"], dgst.String())

	moved := m.both("app:1", image(2))
	m.clientPull(ref, registry.WithHostDir(m.hostsDirs()[0]))
	want(t, "target", m.target(ref), moved)
	m.wantSources("a change", ref, m.mirror.Host()+"/app:1", "")
	want(t, "what is said to be verified of it", m.labels(ref)["verified-digest"], "")
}

// TestSourceOfHiddenHosts pulls where the hosts cannot be seen: nothing is
// invented.
func TestSourceOfHiddenHosts(t *testing.T) {
	t.Parallel()
	t.Run("a client that fetches itself", func(t *testing.T) {
		n := newNode(t)
		ref := n.r.Host() + "/app:1"
		n.push("app:1", image(1))
		if _, err := n.client.Pull(t.Context(), ref, containerd.WithPullUnpack); err != nil {
			t.Fatal(err)
		}
		want(t, "labels", len(n.labels(ref)), 0)
		eventually(t, "CRI knows the image", func() bool { return n.imageStatus(ref).GetImage() != nil })
		want(t, "annotations", len(n.imageStatus(ref).GetImage().GetSpec().GetAnnotations()), 0)
	})
	t.Run("CRI without the transfer service", func(t *testing.T) {
		m := newMirrored(t, criImages("use_local_image_pull = true"))
		ref := named("app:1")
		dgst := m.both("app:1", image(1))
		m.mustPull(ref)
		eventually(t, "the pull is recorded", func() bool { return m.labels(ref)["pulled-at"] != "" })
		m.wantSources("use_local_image_pull", ref, "", "")
		want(t, "verified digest", m.labels(ref)["verified-digest"], dgst.String())
	})
}

// TestSourceOfThePodImage holds that the image of pods, which CRI pulls itself,
// has a source too, and is pinned as before.
func TestSourceOfThePodImage(t *testing.T) {
	t.Parallel()
	d := start(t, containers(t))
	pause := resolvertest.New(t)
	d.runPod(pause)
	img, ok := d.record(pauseImage)
	if !ok {
		t.Fatal("there is no image for pods")
	}
	for _, name := range []string{pauseImage, "pause.test/pause@" + img.Target.Digest.String()} {
		got := d.labels(name)
		want(t, "pull source of "+name, got["pull-source"], pause.Host()+"/pause:1")
		want(t, "verified digest of "+name, got["verified-digest"], "")
		record, _ := d.record(name)
		want(t, "pinned "+name, record.Labels["io.cri-containerd.pinned"], "pinned")
	}
	want(t, "pinned for CRI", d.imageStatus(pauseImage).GetImage().GetPinned(), true)
}
