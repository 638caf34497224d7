// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxVolumeDirs bounds the directories of volumes of a pod of which Misnamed reads a manifest and a config.
const maxVolumeDirs = 64

// MountedOf reports whether a directory that CRI has mounted for a volume of a container has the layers of the image with that ID,
// and is named by the digest of a manifest of it. CRI takes the digest from the first of the image's names in the database, which
// may stand for another image by then, and a directory of that name that is mounted already for right: one with another name would
// be wrong for the image that the name is of. The error is of a snapshot or config that cannot be read; a directory without a
// snapshot, or a manifest that cannot be read, is false.
func (p *Puller) MountedOf(ctx context.Context, dir, imageID string) (bool, error) {
	found, err := p.snapshotsOf(ctx, dir)
	if err != nil || len(found) == 0 {
		return false, err
	}
	stand, err := p.allStandOn(ctx, found, imageID)
	return stand && p.imageNamed(ctx, dir) == imageID, err
}

// Misnamed returns directories of volumes of a pod that have not the layers of the manifest by which they are named, of the first
// few. The pod's lease, which CRI names by its ID, tells the directories: nothing in it is a tenant's to choose. A directory whose
// manifest cannot be read is none of them, nor is one without a snapshot.
func (p *Puller) Misnamed(ctx context.Context, sandbox string) (dirs []string, err error) {
	resources, err := p.leases.ListResources(ctx, leases.Lease{ID: sandbox})
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list what the lease of pod %s has: %w", sandbox, err)
	}
	for _, r := range resources {
		isVolume := strings.HasPrefix(r.Type, "snapshots/") && strings.HasSuffix(filepath.Dir(r.ID), "/image-volumes/"+sandbox)
		if isVolume && !slices.Contains(dirs, r.ID) && len(dirs) < maxVolumeDirs {
			dirs = append(dirs, r.ID)
		}
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		misnamed, failed := p.isMisnamed(ctx, dir)
		err = errors.Join(err, failed)
		return !misnamed
	}), err
}

func (p *Puller) isMisnamed(ctx context.Context, dir string) (bool, error) {
	imageID := p.imageNamed(ctx, dir)
	found, err := p.snapshotsOf(ctx, dir)
	if err != nil || len(found) == 0 || imageID == "" {
		return false, err
	}
	stand, err := p.allStandOn(ctx, found, imageID)
	return err == nil && !stand, err
}

// snapshotsOf returns the snapshots of a directory of a volume, by snapshotter: the one of the pod's containers may be another one
// than when the directory was mounted. One that is broken, such as a proxy that is not there, says nothing where another has it.
func (p *Puller) snapshotsOf(ctx context.Context, dir string) (map[string]snapshots.Info, error) {
	found := map[string]snapshots.Info{}
	var broken error
	for name, sn := range p.snapshotters {
		snapshot, err := sn.Stat(ctx, dir)
		switch {
		case err == nil:
			found[name] = snapshot
		case !errdefs.IsNotFound(err):
			broken = errors.Join(broken, fmt.Errorf("the snapshot of a volume in snapshotter %s: %w", name, err))
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	return nil, broken
}

// allStandOn is standsOn for the snapshots of a directory: it does not tell of which of them it was mounted.
func (p *Puller) allStandOn(ctx context.Context, found map[string]snapshots.Info, imageID string) (bool, error) {
	for _, snapshot := range found {
		if stands, err := p.standsOn(ctx, snapshot, imageID); err != nil || !stands {
			return false, err
		}
	}
	return true, nil
}

// imageNamed returns the ID of the image of whose manifest, or index, a directory has the digest as its name; "" where that cannot be read.
func (p *Puller) imageNamed(ctx context.Context, dir string) string {
	encoded := filepath.Base(dir)
	for _, algorithm := range []digest.Algorithm{digest.SHA256, digest.SHA384, digest.SHA512} {
		if algorithm.Validate(encoded) != nil {
			continue
		}
		for _, kind := range []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex} { // none can be read as both
			desc := ocispec.Descriptor{MediaType: kind, Digest: digest.NewDigestFromEncoded(algorithm, encoded)}
			if config, err := images.Config(ctx, p.contents, desc, platforms.Default()); err == nil {
				return config.Digest.String()
			}
		}
	}
	return ""
}

// Unmount unmounts a directory that CRI has mounted for a volume, so that CRI mounts it anew for the next container. No other
// container may use it. The snapshot goes last: while anything is left of the directory, MountedOf and Misnamed tell of which image.
func (p *Puller) Unmount(ctx context.Context, dir string) error {
	if err := mount.UnmountAll(dir, 0); err != nil {
		return fmt.Errorf("unmount a volume: %w", err)
	}
	if p.mounts != nil { // CRI would mount what was activated by this name
		if err := p.mounts.Deactivate(ctx, "cri-image-mount-"+dir); err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("deactivate the mounts of a volume: %w", err)
		}
	}
	found, err := p.snapshotsOf(ctx, dir)
	for name := range found {
		if err := p.snapshotters[name].Remove(ctx, dir); err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("remove the snapshot of a volume in snapshotter %s: %w", name, err)
		}
	}
	return err
}
