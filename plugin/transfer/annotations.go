// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"maps"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// Annotations leaves out the annotations that containerd, its clients and pullwarden give
// to layers, or to their snapshots, themselves. containerd makes labels of a snapshot of all
// of a layer's annotations that look like such: an image could say where its layers came from,
// that the snapshot which others share is a remote one, or from which registry a remote
// snapshotter is to fetch it. Those by which images describe themselves to a snapshotter, such
// as containerd.io/snapshot/stargz/toc.digest, stay.
func Annotations(h images.HandlerFunc) images.HandlerFunc {
	return func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		children, err := h(ctx, desc)
		for i := range children {
			own := maps.Clone(children[i].Annotations)
			maps.DeleteFunc(own, func(key, _ string) bool { return isReserved(key) })
			children[i].Annotations = own
		}
		return children, err
	}
}

const snapshotPrefix = "containerd.io/snapshot/"

// isReserved reports whether no image has to say that of a layer.
func isReserved(key string) bool {
	switch key { // not all of these are exported by all minors of containerd
	case "containerd.io/snapshot.ref", snapshotPrefix + "uidmapping", snapshotPrefix + "gidmapping",
		snapshotPrefix + "diff-id", snapshotPrefix + "parent-chain-id", snapshotPrefix + "max-size":
		return true
	}
	own, ofSnapshot := strings.CutPrefix(key, snapshotPrefix)
	// Remote snapshotters find by these which layer of which image, and in which registry.
	remote := own == "remote" || strings.HasPrefix(own, "remote/") || strings.HasPrefix(own, "cri.")
	return ofSnapshot && remote || strings.HasPrefix(key, store.Prefix)
}
