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

// What such a label says: that is how it came to be known.
const (
	wasUnpacked = "unpacked"
	wasCompared = "compared"
)

// maxUnpacked bounds the layers of either kind: anybody may pack the same in another way, as often as they like. None takes the place of
// another one, by which images may be known: those that have no room are compared with each image.
const maxUnpacked = 64

// isUnpackedOf reports whether labels of a snapshot say that the layer unpacks to it.
func isUnpackedOf(labels map[string]string, layer digest.Digest) bool {
	return labels[labelUnpacked+layer.String()] != ""
}

// hasRoom reports whether labels of a snapshot may say it of one more layer in that way.
func hasRoom(labels map[string]string, how string) bool {
	n := 0
	for label, value := range labels {
		if value == how && strings.HasPrefix(label, labelUnpacked) {
			n++
		}
	}
	return n < maxUnpacked
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
			if errdefs.IsNotFound(err) || err == nil && (!l.is(info) || isUnpackedOf(info.Labels, l.layer) || !hasRoom(info.Labels, wasCompared)) {
				continue
			}
			if err != nil {
				return fmt.Errorf("snapshot %s: %w", l.chainID, err)
			}
			all := map[string]string{labelUnpacked + l.layer.String(): wasCompared}
			if _, err := sn.Update(ctx, snapshots.Info{Name: info.Name, Labels: all}, pathsOf(all)...); err != nil && !errdefs.IsNotFound(err) {
				return fmt.Errorf("label snapshot %s: %w", l.chainID, err)
			}
		}
	}
	return nil
}
