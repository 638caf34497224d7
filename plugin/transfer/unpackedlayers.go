// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// labelUnpacked begins, on a snapshot, the labels for layers that are known to unpack to it, whether they are still there or
// not: one for each, so that none is lost where several are written at the same time.
const labelUnpacked = store.Prefix + "unpacked-layer."

// Anybody may pack the same in another way, and so often that there is no room for the layer of which a snapshot was made, which is the
// first one as a rule. So there is more room for those that were unpacked than for those that were compared alone.
const (
	maxUnpacked = 64
	maxCompared = 8
)

// isUnpackedOf reports whether labels of a snapshot say that the layer unpacks to it.
func isUnpackedOf(labels map[string]string, layer digest.Digest) bool {
	return labels[labelUnpacked+layer.String()] != ""
}

// hasRoom reports whether labels of a snapshot say of fewer layers that they unpack to it.
func hasRoom(labels map[string]string, most int) bool {
	for label := range labels {
		if strings.HasPrefix(label, labelUnpacked) {
			most--
		}
	}
	return most > 0
}

// mayBeAbsent reports whether registries take a manifest with a layer that its repository does not have.
func mayBeAbsent(layer ocispec.Descriptor) bool {
	return len(layer.URLs) > 0 || images.IsNonDistributable(layer.MediaType)
}

// Compared takes note that the layers of an image unpack to what its config says, as a comparison has found out, whoever has
// unpacked that, and by whichever packing.
func (s *Service) Compared(ctx context.Context, target ocispec.Descriptor, snapshotter string) error {
	t := s.tracker.Load()
	if t == nil {
		return nil
	}
	return t.contents.compared(ctx, target, t.snapshotters([]transfer.UnpackConfiguration{{Snapshotter: snapshotter}}))
}

func (s *contentSources) compared(ctx context.Context, target ocispec.Descriptor, unpackedBy []snapshots.Snapshotter) error {
	manifest, err := images.Manifest(ctx, s.documents(), target, platforms.Default())
	if err != nil {
		return err
	}
	links, err := s.links(ctx, manifest)
	if err != nil {
		return err
	}
	for _, l := range links {
		for _, sn := range unpackedBy {
			info, err := sn.Stat(ctx, l.chainID)
			if errdefs.IsNotFound(err) || err == nil && (!l.is(info) || isUnpackedOf(info.Labels, l.layer) || !hasRoom(info.Labels, maxCompared)) {
				continue
			}
			if err != nil {
				return fmt.Errorf("snapshot %s: %w", l.chainID, err)
			}
			all := map[string]string{labelUnpacked + l.layer.String(): "true"}
			if _, err := sn.Update(ctx, snapshots.Info{Name: info.Name, Labels: all}, pathsOf(all)...); err != nil && !errdefs.IsNotFound(err) {
				return fmt.Errorf("label snapshot %s: %w", l.chainID, err)
			}
		}
	}
	return nil
}
