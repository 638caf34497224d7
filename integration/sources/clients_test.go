// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"testing"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/transfer/registry"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestSourceOfClientPulls pulls with the transfer service past CRI: the sources
// are recorded, and nothing is said of checks that nobody made.
func TestSourceOfClientPulls(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	plain := m.Registry.Host() + "/plain:1"
	m.both("app:1", nodetest.Image(1))
	m.Push("plain:1", nodetest.Image(2))
	m.PushTo(m.mirror, "proxy/path:1", nodetest.Image(3))
	m.both("part:1", nodetest.Image(4))

	own := func(ref, source, content string) {
		t.Helper()
		m.WaitForImage(ref)
		m.wantSources(ref, ref, source, content)
		got := m.Labels(ref)
		nodetest.Want(t, ref+" is pulled at some time", got["pulled-at"] != "", true)
		delete(got, "pulled-at")
		delete(got, "pull-source")
		delete(got, "content-sources")
		nodetest.Want(t, "other labels of "+ref, fmt.Sprint(got), fmt.Sprintf("map[has-layers:true record:%s %s]", m.Target(ref), ref))
		m.WantRunnable(ref)
	}
	dir := registry.WithHostDir(m.HostsDirs()[0])
	m.Transfer(nodetest.Named("app:1"), dir)
	own(nodetest.Named("app:1"), m.mirror.Host()+"/app:1", "")

	m.Transfer(plain, registry.WithDefaultScheme("http"))
	own(plain, plain, "")

	m.WriteHosts("path.test", m.Server(m.Registry)+capable(m.mirror, "/v2/proxy", `"pull", "resolve"`, "override_path = true"))
	m.Transfer("path.test/path:1", dir)
	own("path.test/path:1", m.mirror.Host()+"/proxy/path:1", "")

	refuse(m.mirror, 404, of(partsOf(t, nodetest.Image(4)).layers...))
	m.Transfer(nodetest.Named("part:1"), dir)
	own(nodetest.Named("part:1"), m.mirror.Host()+"/part:1", m.mirror.Host()+","+m.Registry.Host())

	// The same again, of which all is there.
	m.mirror.Refuse()
	m.Transfer(nodetest.Named("app:1"), dir)
	own(nodetest.Named("app:1"), m.mirror.Host()+"/app:1", "")

	// A change.
	m.Push("app:1", nodetest.Image(5))
	m.Transfer(nodetest.Named("app:1"), dir)
	own(nodetest.Named("app:1"), m.Registry.Host()+"/app:1", "")
}

// TestSourceOfAClientPullAfterCRI holds that what CRI's checks found out stays
// where a client pulls the same digest.
func TestSourceOfAClientPullAfterCRI(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	ref := nodetest.Named("app:1")
	dgst := m.both("app:1", nodetest.Image(1))
	m.MustPull(ref)
	before := m.Labels(ref)
	m.Transfer(ref, registry.WithHostDir(m.HostsDirs()[0]))
	after := m.Labels(ref)
	for key, value := range before {
		if key != "pulled-at" {
			nodetest.Want(t, key, after[key], value)
		}
	}
	nodetest.Want(t, "verified digest", after["verified-digest"], dgst.String())

	moved := m.both("app:1", nodetest.Image(2))
	m.Transfer(ref, registry.WithHostDir(m.HostsDirs()[0]))
	nodetest.Want(t, "target", m.Target(ref), moved)
	m.wantSources("a change", ref, m.mirror.Host()+"/app:1", "")
	nodetest.Want(t, "what is said to be verified of it", m.Labels(ref)["verified-digest"], "")
}

// TestSourceOfHiddenHosts pulls by a client that fetches itself, so that its
// hosts cannot be seen: nothing is invented.
func TestSourceOfHiddenHosts(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	ref := n.Registry.Host() + "/app:1"
	n.Push("app:1", nodetest.Image(1))
	if _, err := n.Client.Pull(t.Context(), ref, containerd.WithPullUnpack); err != nil {
		t.Fatal(err)
	}
	nodetest.Want(t, "labels", len(n.Labels(ref)), 0)
	n.WaitForImage(ref)
	nodetest.Want(t, "annotations", len(n.Status(ref).GetImage().GetSpec().GetAnnotations()), 0)
}

// TestSourceWithLocalPull holds that the source is recorded where CRI is told to
// pull without the transfer service.
func TestSourceWithLocalPull(t *testing.T) {
	t.Parallel()
	m := newMirrored(t, nodetest.CRIImages("use_local_image_pull = true"))
	ref := nodetest.Named("app:1")
	dgst := m.both("app:1", nodetest.Image(1))
	m.MustPull(ref)
	m.wantSources("use_local_image_pull", ref, m.mirror.Host()+"/app:1", "")
	nodetest.Want(t, "verified digest", m.Labels(ref)["verified-digest"], dgst.String())
	nodetest.Want(t, "pulled at some time", m.Labels(ref)["pulled-at"] != "", true)
}
