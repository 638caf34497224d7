// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"testing"

	"github.com/containerd/containerd/api/services/introspection/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	core "github.com/containerd/containerd/v2/core/introspection"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/image-spec/identity"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// noCapabilities tells of snapshotters that cannot map owners.
type noCapabilities struct{ core.Service }

func (noCapabilities) Plugins(context.Context, ...string) (*introspection.PluginsResponse, error) {
	return &introspection.PluginsResponse{Plugins: []*introspection.Plugin{{}}}, nil
}

// remapping is a snapshotter that has any remapped snapshot, and takes down which one a container is for.
type remapping struct {
	snapshots.Snapshotter
	parent string
}

func (*remapping) Stat(context.Context, string) (snapshots.Info, error) { return snapshots.Info{}, nil }

func (r *remapping) Prepare(_ context.Context, _, parent string, _ ...snapshots.Opt) ([]mount.Mount, error) {
	r.parent = parent
	return nil, nil
}

// stands makes a container whose snapshot has that parent.
func (n *node) stands(id, parent string, opts ...snapshots.Opt) {
	n.t.Helper()
	_, err := n.Snapshotters["native"].Prepare(n.ctx, id, parent, opts...)
	check(n.t, err)
	_, err = n.Containers.Create(n.ctx, containers.Container{
		ID: id, Image: "registry.test/by:1", Snapshotter: "native", SnapshotKey: id, Spec: &anySpec{}, Runtime: containers.RuntimeInfo{Name: "runc"},
	})
	check(n.t, err)
}

type anySpec struct{ typeurl.Any }

func (anySpec) GetTypeUrl() string { return "spec" }
func (anySpec) GetValue() []byte   { return []byte("{}") }

// A container is of an image if it stands on its very layers, be it by the name that containerd's own
// client gives them where it maps owners. What stands on more, or less, is of another one.
func TestMadeOf(t *testing.T) {
	n := newNode(t)
	ref, _ := n.push("team/app:1", resolvertest.Image(1, 2, 100))
	id := n.pull(settings(), ref, "")
	img, err := n.Images.Get(n.ctx, ref)
	check(t, err)
	diffIDs, err := img.RootFS(n.ctx, n.Contents, platforms.Default())
	check(t, err)
	chain, base := identity.ChainID(diffIDs).String(), diffIDs[0].String()

	owners := containerd.WithRemapperLabels(0, 100000, 0, 200000, 65536)
	records := &remapping{}
	client, err := containerd.New("", containerd.WithServices(
		containerd.WithImageStore(n.Images), containerd.WithContentStore(n.Contents),
		containerd.WithSnapshotters(map[string]snapshots.Snapshotter{"native": records}),
		containerd.WithIntrospectionService(noCapabilities{}),
	))
	check(t, err)
	of := &containers.Container{Snapshotter: "native"}
	check(t, containerd.WithNewSnapshot("id", containerd.NewImage(client, img), owners)(n.ctx, client, of))
	sn := n.Snapshotters["native"]
	commit := func(name, parent string) {
		_, err := sn.Prepare(n.ctx, "making "+name, parent)
		check(t, err)
		check(t, sn.Commit(n.ctx, name, "making "+name))
	}
	commit(records.parent, chain)
	commit("sha256:more", chain)

	n.stands("own", chain)
	n.stands("remapped", records.parent, owners)
	n.stands("more", "sha256:more")
	n.stands("more-with-owners", "sha256:more", owners)
	n.stands("less", base)
	n.stands("none", "")
	p := n.puller(settings())
	for container, want := range map[string]bool{
		"own": true, "remapped": true, "more": false, "more-with-owners": false, "less": false, "none": false,
	} {
		made, by, err := p.MadeOf(n.ctx, container, id)
		if made != want || by != "registry.test/by:1" || err != nil {
			t.Errorf("%s: %v by %q, %v", container, made, by, err)
		}
	}
	if made, _, err := p.MadeOf(n.ctx, "gone", id); made || !errdefs.IsNotFound(err) {
		t.Errorf("a container that is not there: %v, %v", made, err)
	}
}

// A record by which CRI has made a container of another image is read again; one that CRI cannot read
// is removed, and CRI hears of that.
func TestRecordOfAnotherImage(t *testing.T) {
	n := newNode(t)
	ref, _ := n.push("team/app:1", resolvertest.Image(1, 2, 100))
	n.pull(settings(), ref, "")
	p := n.puller(settings())
	told := len(n.index.told)
	p.readAgain(n.ctx, "registry.test/gone:1")
	p.readAgain(n.ctx, ref)
	if _, err := n.Images.Get(n.ctx, ref); err != nil {
		t.Errorf("one that CRI reads: %v", err)
	}
	equal(t, "CRI is told of", n.index.told[told:], []string{ref})
	n.index.refuse = ref
	p.readAgain(n.ctx, ref)
	if _, err := n.Images.Get(n.ctx, ref); !errdefs.IsNotFound(err) {
		t.Errorf("one that CRI cannot read: %v", err)
	}
}
