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

// Annotations leaves out the annotations of layers that containerd would make labels of their
// snapshots of, but for those by which images describe themselves to a snapshotter. Snapshots
// are shared, and their labels are for containerd, its clients and snapshotters to write: an
// image could say where its layers came from, that a snapshot is a remote one, from which
// registry a remote snapshotter is to fetch it, or which file of the node it is to write.
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

// snapshotPrefix is that of the annotations which containerd makes labels of, and of a label
// that it writes itself, containerd.io/snapshot.ref.
const snapshotPrefix = "containerd.io/snapshot"

// described are the annotations that snapshotters read of the images made for them, behind the
// prefix. They are named one by one, since the same snapshotters read what only they and
// their clients are to write under names alike, such as /overlaybd/record-trace-path.
var described = map[string]bool{
	"/stargz/toc.digest": true,

	"/nydus-blob": true, "/nydus-bootstrap": true, "/nydus-ref": true, "/nydus-signature": true,

	"/overlaybd/blob-digest": true, "/overlaybd/blob-size": true, "/overlaybd/blob-fs-type": true,
	"/overlaybd/acceleration-layer":      true,
	"/overlaybd/turbo-oci/target-digest": true, "/overlaybd/turbo-oci/target-media-type": true,
	"/overlaybd/fastoci/target-digest": true, "/overlaybd/fastoci/target-media-type": true,
}

// isReserved reports whether no image has to say that of a layer.
func isReserved(key string) bool {
	behind, ofSnapshot := strings.CutPrefix(key, snapshotPrefix)
	ofSnapshot = ofSnapshot && (strings.HasPrefix(behind, "/") || behind == ".ref")
	return ofSnapshot && !described[behind] || strings.HasPrefix(key, store.Prefix)
}
