// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"reflect"
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

// stands makes a container by a record, whose snapshot has that parent.
func (n *node) stands(id, record, parent string, opts ...snapshots.Opt) {
	n.t.Helper()
	_, err := n.Snapshotters["native"].Prepare(n.ctx, id, parent, opts...)
	check(n.t, err)
	_, err = n.Containers.Create(n.ctx, containers.Container{
		ID: id, Image: record, Snapshotter: "native", SnapshotKey: id, Spec: &anySpec{}, Runtime: containers.RuntimeInfo{Name: "runc"},
	})
	check(n.t, err)
}

type anySpec struct{ typeurl.Any }

func (anySpec) GetTypeUrl() string { //nolint:revive // typeurl's name
	return "spec"
}
func (anySpec) GetValue() []byte { return []byte("{}") }

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

	const by = "registry.test/by:1"
	n.stands("own", by, chain)
	n.stands("remapped", by, records.parent, owners)
	n.stands("more", by, "sha256:more")
	n.stands("more-with-owners", by, "sha256:more", owners)
	n.stands("less", by, base)
	n.stands("none", by, "")
	p := n.puller(settings())
	for container, want := range map[string]bool{
		"own": true, "remapped": true, "more": false, "more-with-owners": false, "less": false, "none": false,
	} {
		made, record, err := p.MadeOf(n.ctx, container, id)
		if made != want || record != by || err != nil {
			t.Errorf("%s: %v by %q, %v", container, made, record, err)
		}
	}
	if made, _, err := p.MadeOf(n.ctx, "gone", id); made || !errdefs.IsNotFound(err) {
		t.Errorf("a container that is not there: %v, %v", made, err)
	}
}

// The record of a container is given the name of its image, and stays the same else.
func TestNameImage(t *testing.T) {
	n := newNode(t)
	n.stands("own", "registry.test/other:1", "")
	p := n.puller(settings())
	was, err := n.Containers.Get(n.ctx, "own")
	check(t, err)
	for range 2 {
		check(t, p.NameImage(n.ctx, "own", "registry.test/own:1"))
	}
	is, err := n.Containers.Get(n.ctx, "own")
	check(t, err)
	if is.Image != "registry.test/own:1" {
		t.Errorf("got %s", is.Image)
	}
	is.Image, is.UpdatedAt = was.Image, was.UpdatedAt
	if !reflect.DeepEqual(is, was) {
		t.Errorf("got %+v, want %+v", is, was)
	}
	if err := p.NameImage(n.ctx, "gone", "registry.test/own:1"); !errdefs.IsNotFound(err) {
		t.Errorf("a container that is not there: %v", err)
	}
}
