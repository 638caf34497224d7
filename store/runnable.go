// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Image is an image that a container can be made of.
type Image struct {
	// ID is CRI's: the digest of the config.
	ID digest.Digest
	// Unpacked says that the snapshot is there. If not, the layers are, from
	// which it can be made.
	Unpacked bool
}

// Runnable returns the image of target if a container can be made of it with
// that snapshotter: its manifest and config can be read, and its top snapshot
// is there or all of its layers are. Otherwise the error says what is missing.
func (s *Store) Runnable(ctx context.Context, target ocispec.Descriptor, snapshotter string) (Image, error) {
	cs := s.db.ContentStore()
	l, err := s.layouts.get(ctx, cs, target)
	if err != nil {
		return Image{}, err
	}
	for _, doc := range l.documents {
		if err := readable(ctx, cs, doc); err != nil {
			return Image{}, fmt.Errorf("%s of %s: %w", doc.Digest, target.Digest, err)
		}
	}
	sn := s.db.Snapshotter(snapshotter)
	if sn == nil {
		return Image{}, fmt.Errorf("snapshotter %q: %w", snapshotter, errdefs.ErrNotFound)
	}
	info, err := sn.Stat(ctx, l.chainID)
	if err == nil && info.Kind == snapshots.KindCommitted {
		return Image{ID: l.imageID, Unpacked: true}, nil
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return Image{}, fmt.Errorf("snapshot of %s: %w", target.Digest, err)
	}
	manifest, err := images.Manifest(ctx, cs, target, platforms.Default())
	if err != nil {
		return Image{}, fmt.Errorf("manifest of %s: %w", target.Digest, err)
	}
	for _, layer := range manifest.Layers {
		if err := readable(ctx, cs, layer); err != nil {
			return Image{}, fmt.Errorf("no snapshot in %q, and layer %s: %w", snapshotter, layer.Digest, err)
		}
	}
	return Image{ID: l.imageID}, nil
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

// layout is what the documents of an image say about it. They are found by
// their digests, so it never changes.
type layout struct {
	imageID   digest.Digest
	chainID   string
	documents []ocispec.Descriptor // index, manifest, config
}

// maxLayouts bounds the memory of what has been read: some hundred bytes each.
const maxLayouts = 4096

// layouts remembers what has been read. The zero value is ready.
type layouts struct {
	mu  sync.Mutex
	all map[digest.Digest]layout
}

func (c *layouts) get(ctx context.Context, provider content.Provider, target ocispec.Descriptor) (layout, error) {
	c.mu.Lock()
	l, ok := c.all[target.Digest]
	c.mu.Unlock()
	if ok {
		return l, nil
	}
	l, err := readLayout(ctx, provider, target)
	if err != nil {
		return layout{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || len(c.all) >= maxLayouts {
		c.all = map[digest.Digest]layout{}
	}
	c.all[target.Digest] = l
	return l, nil
}

func readLayout(ctx context.Context, provider content.Provider, target ocispec.Descriptor) (layout, error) {
	p := platforms.Default()
	manifest, err := images.Manifest(ctx, provider, target, p)
	if err != nil {
		return layout{}, fmt.Errorf("manifest of %s: %w", target.Digest, err)
	}
	diffIDs, err := images.RootFS(ctx, provider, manifest.Config)
	if err != nil {
		return layout{}, fmt.Errorf("config of %s: %w", target.Digest, err)
	}
	l := layout{
		imageID:   manifest.Config.Digest,
		chainID:   identity.ChainID(diffIDs).String(),
		documents: []ocispec.Descriptor{target, manifest.Config},
	}
	if !images.IsIndexType(target.MediaType) {
		return l, nil
	}
	children, err := images.LimitManifests(images.FilterPlatforms(images.ChildrenHandler(provider), p), p, 1)(ctx, target)
	if err != nil {
		return layout{}, fmt.Errorf("index of %s: %w", target.Digest, err)
	}
	l.documents = append(l.documents, children...)
	return l, nil
}
