// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"os"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
)

// ChainOf returns the name of the snapshot of all layers of an image.
func ChainOf(t testing.TB, img v1.Image) string {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	var layers []digest.Digest
	for _, id := range config.RootFS.DiffIDs {
		layers = append(layers, digest.Digest(id.String()))
	}
	return identity.ChainID(layers).String()
}

// StandsOn returns the name of the snapshot that a container stands on.
func (n *Node) StandsOn(container string) string {
	n.T.Helper()
	ctx := namespaces.WithNamespace(n.T.Context(), "k8s.io")
	c, err := n.Client.ContainerService().Get(ctx, container)
	n.Must(err)
	snapshot, err := n.Client.SnapshotService(c.Snapshotter).Stat(ctx, c.SnapshotKey)
	n.Must(err)
	return snapshot.Parent
}

// FilesAt returns the names of the files that a container has in a directory where something is mounted, with spaces between.
func (n *Node) FilesAt(container, destination string) string {
	n.T.Helper()
	ctx := namespaces.WithNamespace(n.T.Context(), "k8s.io")
	c, err := n.Client.LoadContainer(ctx, container)
	n.Must(err)
	spec, err := c.Spec(ctx)
	n.Must(err)
	var names []string
	for _, mount := range spec.Mounts {
		if mount.Destination == destination {
			entries, err := os.ReadDir(mount.Source)
			n.Must(err)
			for _, e := range entries {
				names = append(names, e.Name())
			}
		}
	}
	return strings.Join(names, " ")
}
