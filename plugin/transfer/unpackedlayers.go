// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"slices"
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

// labelUnpacked has, on a snapshot, the layers that are known to unpack to it, whether they are still there or not.
const labelUnpacked = store.Prefix + "unpacked-layers"

// maxUnpacked bounds those layers: anybody may pack the same in another way.
const maxUnpacked = 8

// isUnpackedOf reports whether labels of a snapshot say that the layer unpacks to it.
func isUnpackedOf(labels map[string]string, layer digest.Digest) bool {
	return slices.Contains(strings.Fields(labels[labelUnpacked]), layer.String())
}

// unpackedToo returns the value of labelUnpacked with one more layer.
func unpackedToo(labels map[string]string, layer digest.Digest) string {
	all := append(strings.Fields(labels[labelUnpacked]), layer.String())
	return strings.Join(all[max(0, len(all)-maxUnpacked):], " ")
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
			if errdefs.IsNotFound(err) || err == nil && (!l.is(info) || isUnpackedOf(info.Labels, l.layer)) {
				continue
			}
			if err != nil {
				return fmt.Errorf("snapshot %s: %w", l.chainID, err)
			}
			all := map[string]string{labelUnpacked: unpackedToo(info.Labels, l.layer)}
			if _, err := sn.Update(ctx, snapshots.Info{Name: info.Name, Labels: all}, pathsOf(all)...); err != nil && !errdefs.IsNotFound(err) {
				return fmt.Errorf("label snapshot %s: %w", l.chainID, err)
			}
		}
	}
	return nil
}
