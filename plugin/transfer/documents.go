// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
)

// Documents refuses manifests, indexes and configs that are larger than
// docker.MaxManifestSize, be it by what is said of them or by what is here of that
// digest, and those of too many objects: containerd reads them as a whole. So it does those
// that name something without a digest or a size. Each is looked at when it is listed, before
// any of it is fetched, and again when it is there: it may have come by another pull, and be
// anything. It leaves the data out that descriptors have with them, so that all content is
// fetched, and has a source.
func Documents(h images.HandlerFunc, contents content.Provider) images.HandlerFunc {
	var configs sync.Map // by digest: those of manifests, whatever their type
	return func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		if _, isConfig := configs.Load(desc.Digest); isConfig || isDocument(desc) {
			if err := checkDocument(ctx, contents, desc, isConfig); err != nil {
				return nil, documents.In(desc.Digest, err)
			}
		}
		children, err := h(ctx, desc)
		if err != nil {
			return nil, err
		}
		if err := documents.CheckChildren(ctx, desc, children); err != nil {
			return nil, documents.In(desc.Digest, err)
		}
		for i := range children {
			children[i].Data = nil
			// The config is the first child of a manifest, whatever its type.
			isConfig := i == 0 && images.IsManifestType(desc.MediaType)
			if isConfig {
				configs.Store(children[i].Digest, true)
			}
			if !isConfig && !isDocument(children[i]) {
				continue
			}
			if err := checkDocument(ctx, contents, children[i], isConfig); err != nil {
				return nil, documents.In(desc.Digest, err)
			}
		}
		return children, nil
	}
}

// isDocument reports whether containerd reads content of that type as a whole, wherever a
// manifest or an index has it.
func isDocument(desc ocispec.Descriptor) bool {
	return images.IsManifestType(desc.MediaType) || images.IsIndexType(desc.MediaType) || images.IsConfigType(desc.MediaType)
}

// checkDocument returns an error for a document that takes too much memory to be read, or
// that names things by what is no digest.
func checkDocument(ctx context.Context, contents content.Provider, desc ocispec.Descriptor, isConfig bool) error {
	if err := documents.Check(desc.Digest, desc.Size); err != nil {
		return err
	}
	if isConfig && !isDocument(desc) {
		desc.MediaType = ocispec.MediaTypeImageConfig
	}
	return documents.Bounded{Provider: contents}.Check(ctx, desc)
}
