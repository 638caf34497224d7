// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Documents refuses manifests, indexes and configs that are larger than
// docker.MaxManifestSize, be it by what is said of them or by what is here of that
// digest: containerd reads them as a whole. It leaves the data out that descriptors
// have with them, so that all content is fetched, and has a source.
func Documents(h images.HandlerFunc, contents content.InfoProvider) images.HandlerFunc {
	return func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		isManifest := images.IsManifestType(desc.MediaType)
		if isManifest || images.IsIndexType(desc.MediaType) {
			if err := boundDocument(ctx, contents, desc); err != nil {
				return nil, err
			}
		}
		children, err := h(ctx, desc)
		if err != nil {
			return nil, err
		}
		for i := range children {
			children[i].Data = nil
			// The config is the first child of a manifest, whatever its type.
			isConfig := isManifest && i == 0
			if !isConfig && !images.IsManifestType(children[i].MediaType) && !images.IsIndexType(children[i].MediaType) {
				continue
			}
			if err := boundDocument(ctx, contents, children[i]); err != nil {
				return nil, err
			}
		}
		return children, nil
	}
}

// boundDocument returns an error for a document that is too large to be read.
func boundDocument(ctx context.Context, contents content.InfoProvider, desc ocispec.Descriptor) error {
	size := desc.Size
	info, err := contents.Info(ctx, desc.Digest)
	switch {
	case err == nil:
		size = max(size, info.Size)
	case !errdefs.IsNotFound(err):
		return fmt.Errorf("size of %s: %w", desc.Digest, err)
	}
	if size > docker.MaxManifestSize {
		return fmt.Errorf("%s is a document of %d bytes: more than %d are not allowed", desc.Digest, size, docker.MaxManifestSize)
	}
	return nil
}
