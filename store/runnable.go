// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Runnable returns the image ID (the digest of the config) of target when a
// container can be made of it with that snapshotter: its manifest and config
// can be read, and its top snapshot is there or all of its layers are, from
// which containerd unpacks when the container is created. Otherwise the error
// says what is missing.
func (s *Store) Runnable(ctx context.Context, target ocispec.Descriptor, snapshotter string) (digest.Digest, error) {
	cs := s.db.ContentStore()
	manifest, err := images.Manifest(ctx, cs, target, platforms.Default())
	if err != nil {
		return "", fmt.Errorf("manifest of %s: %w", target.Digest, err)
	}
	diffIDs, err := images.RootFS(ctx, cs, manifest.Config)
	if err != nil {
		return "", fmt.Errorf("config of %s: %w", target.Digest, err)
	}
	sn := s.db.Snapshotter(snapshotter)
	if sn == nil {
		return "", fmt.Errorf("snapshotter %q: %w", snapshotter, errdefs.ErrNotFound)
	}
	info, err := sn.Stat(ctx, identity.ChainID(diffIDs).String())
	if err == nil && info.Kind == snapshots.KindCommitted {
		return manifest.Config.Digest, nil
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return "", fmt.Errorf("snapshot of %s: %w", target.Digest, err)
	}
	for _, layer := range manifest.Layers {
		if err := readable(ctx, cs, layer); err != nil {
			return "", fmt.Errorf("no snapshot in %q, and layer %s: %w", snapshotter, layer.Digest, err)
		}
	}
	return manifest.Config.Digest, nil
}

// readable opens the blob, because the database alone does not know whether
// the file is still there.
func readable(ctx context.Context, provider content.Provider, desc ocispec.Descriptor) error {
	r, err := provider.ReaderAt(ctx, desc)
	if err != nil {
		return err
	}
	defer r.Close()
	if r.Size() != desc.Size {
		return fmt.Errorf("has %d of %d bytes: %w", r.Size(), desc.Size, errdefs.ErrFailedPrecondition)
	}
	return nil
}
