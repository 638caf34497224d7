// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
)

const (
	// maxLayouts bounds the memory of layouts that were read: some hundred bytes each, with
	// one index, or none.
	maxLayouts = 4096
	// maxRemembered bounds the documents of a layout that is remembered. Others are read
	// each time: any number of indexes can be in one another.
	maxRemembered = 64
)

// layoutKey is all that counts of a target: its size is whatever a registry claimed
// that some record is of.
type layoutKey struct {
	digest    digest.Digest
	mediaType string
}

// layout holds what the documents of an image say about it. They are found by
// their digests, so it never changes. Of their descriptors it has what is asked of them,
// since annotations, and the type of a config, can have megabytes.
type layout struct {
	imageID   digest.Digest
	chainID   string               // of the top snapshot
	documents []ocispec.Descriptor // below the target: config, indexes, manifest
}

// manifest is that of the node's platform: the target, or the last of the documents in it.
func (l *layout) manifest(target ocispec.Descriptor) ocispec.Descriptor {
	way := l.way(target)
	return way[len(way)-1]
}

// way are the documents from the target to its manifest, each of which is named by the one before.
func (l *layout) way(target ocispec.Descriptor) []ocispec.Descriptor {
	return append([]ocispec.Descriptor{target}, l.documents[1:]...)
}

// layout returns the layout of target, from memory if it was read before.
func (i *Images) layout(ctx context.Context, provider content.Provider, target ocispec.Descriptor) (layout, error) {
	key := layoutKey{target.Digest, target.MediaType}
	if l, ok := i.layouts.Get(key); ok {
		return l, nil
	}
	l, err := readLayout(ctx, provider, target)
	if err != nil {
		return layout{}, err
	}
	if len(l.documents) <= maxRemembered {
		i.layouts.Add(key, l)
	}
	return l, nil
}

func readLayout(ctx context.Context, provider content.Provider, target ocispec.Descriptor) (layout, error) {
	manifest, err := images.Manifest(ctx, provider, target, platforms.Default())
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
		documents: []ocispec.Descriptor{{Digest: manifest.Config.Digest, Size: manifest.Config.Size}},
	}
	for desc := target; images.IsIndexType(desc.MediaType); { // an index may be in an index
		if desc, err = manifestIn(ctx, provider, desc); err != nil {
			return layout{}, fmt.Errorf("%w, of %s", err, target.Digest)
		}
		l.documents = append(l.documents, ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size})
	}
	return l, nil
}

// manifestIn returns what an index has for this platform, which may be another index.
func manifestIn(ctx context.Context, provider content.Provider, index ocispec.Descriptor) (ocispec.Descriptor, error) {
	next, err := documents.ForNode(provider)(ctx, index)
	if err == nil && len(next) == 0 {
		err = errdefs.ErrNotFound
	}
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("index %s: %w", index.Digest, err)
	}
	return next[0], nil
}
