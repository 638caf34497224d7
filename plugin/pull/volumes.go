// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// MountedOf reports whether a directory that CRI has mounted for a volume of a container has the layers of the image with that ID,
// and is named by the digest of a manifest of it. CRI takes the digest from the first of the image's names in the database, which
// may stand for another image by then, and a directory of that name that is mounted already for right: one with another name would
// be wrong for the image that the name is of. The error is of a container that is not there, or of a snapshot or config that cannot
// be read; a directory without a snapshot, or a manifest that cannot be read, is false.
func (p *Puller) MountedOf(ctx context.Context, container, dir, imageID string) (bool, error) {
	sn, _, err := p.snapshotterOf(ctx, container)
	if err != nil {
		return false, err
	}
	snapshot, err := sn.Stat(ctx, dir)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("the snapshot of a volume of container %s: %w", container, err)
	}
	stands, err := p.standsOn(ctx, snapshot, imageID)
	return stands && p.isManifestOf(ctx, filepath.Base(dir), imageID), err
}

// isManifestOf reports whether the digest with these digits is of a manifest, or an index, of the image with that ID.
func (p *Puller) isManifestOf(ctx context.Context, encoded, imageID string) bool {
	for _, algorithm := range []digest.Algorithm{digest.SHA256, digest.SHA384, digest.SHA512} {
		if algorithm.Validate(encoded) != nil {
			continue
		}
		for _, kind := range []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex} { // none can be read as both
			desc := ocispec.Descriptor{MediaType: kind, Digest: digest.NewDigestFromEncoded(algorithm, encoded)}
			if config, err := images.Config(ctx, p.contents, desc, platforms.Default()); err == nil {
				return config.Digest.String() == imageID
			}
		}
	}
	return false
}

// Unmount unmounts a directory that CRI has mounted for a volume of a container, so that CRI mounts it anew for the next one. No
// other container may use it. The snapshot goes last: while anything is left of the directory, MountedOf tells of which image.
func (p *Puller) Unmount(ctx context.Context, container, dir string) error {
	sn, _, err := p.snapshotterOf(ctx, container)
	if err != nil {
		return err
	}
	if err := mount.UnmountAll(dir, 0); err != nil {
		return fmt.Errorf("unmount a volume of container %s: %w", container, err)
	}
	if p.mounts != nil { // CRI would mount what was activated by this name
		if err := p.mounts.Deactivate(ctx, "cri-image-mount-"+dir); err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("deactivate the mounts of a volume of container %s: %w", container, err)
		}
	}
	if err := sn.Remove(ctx, dir); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove the snapshot of a volume of container %s: %w", container, err)
	}
	return nil
}
