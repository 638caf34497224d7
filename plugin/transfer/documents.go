// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
)

// Documents refuses manifests, indexes and configs that are larger than
// docker.MaxManifestSize, be it by what is said of them or by what is here of that
// digest, and those of too many objects: containerd reads them as a whole. So it does those
// that name something without a digest or a size. Each is looked at when it is listed, before
// any of it is fetched, and again when it is there: it may have come by another pull, and be
// anything. It leaves the data out that descriptors have with them, so that all content is
// fetched, and has a source. Of a pull that takes one manifest of each index, it refuses what is
// too much together: see documents.Way.
//
// A document is checked and listed once in a pull, however often it is named: later visits skip it.
// That is noted when it has been listed, so that nothing below it is left out, and nobody reads
// what is still being checked.
func Documents(h images.HandlerFunc, contents content.Provider) images.HandlerFunc {
	var configs sync.Map // by digest: those of manifests, whatever their type
	visited := &checks{contents: contents, way: &documents.Way{}}
	listed := &checks{contents: contents} // what comes later is checked by its visit
	var done sync.Map                     // of documentKey
	return func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		_, isConfig := configs.Load(desc.Digest)
		if _, again := done.Load(keyOfDocument(desc)); again {
			return nil, images.ErrSkipDesc
		}
		if isConfig || isDocument(desc) {
			if err := visited.check(ctx, desc, isConfig); err != nil {
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
		if err := visited.way.Follow(desc, children); err != nil {
			return nil, documents.In(desc.Digest, err)
		}
		for i := range children {
			children[i].Data = nil
			// The config is the first child of a manifest, whatever its type.
			isConfig := i == 0 && images.IsManifestType(desc.MediaType)
			if i > 0 && images.IsManifestType(desc.MediaType) {
				children[i].Platform = nil // by which containerd would leave it out, and not fetch it
			}
			if isConfig {
				configs.Store(children[i].Digest, true)
			}
			if !isConfig && !isDocument(children[i]) {
				continue
			}
			var err error
			if images.IsIndexType(desc.MediaType) {
				err = documents.Check(children[i].Digest, children[i].Size)
			} else {
				err = listed.check(ctx, children[i], isConfig)
			}
			if err != nil {
				return nil, documents.In(desc.Digest, err)
			}
		}
		if images.IsManifestType(desc.MediaType) || images.IsIndexType(desc.MediaType) {
			done.Store(keyOfDocument(desc), true)
		}
		return children, nil
	}
}

// documentKey is a document as a descriptor calls it.
type documentKey struct {
	digest    digest.Digest
	mediaType string
}

func keyOfDocument(desc ocispec.Descriptor) documentKey {
	return documentKey{desc.Digest, desc.MediaType}
}

// isDocument reports whether containerd reads content of that type as a whole, wherever a
// manifest or an index has it.
func isDocument(desc ocispec.Descriptor) bool {
	return images.IsManifestType(desc.MediaType) || images.IsIndexType(desc.MediaType) || images.IsConfigType(desc.MediaType)
}

// checks are those of the documents of a pull, of which each is read once.
type checks struct {
	contents content.Provider
	way      *documents.Way // of what is read; nil = nothing is yet
	passed   sync.Map       // of documentKey
}

// check returns an error for a document that takes too much memory to be read, or
// that names things by what is no digest.
func (c *checks) check(ctx context.Context, desc ocispec.Descriptor, isConfig bool) error {
	if err := documents.Check(desc.Digest, desc.Size); err != nil {
		return err
	}
	if isConfig && !isDocument(desc) {
		desc.MediaType = ocispec.MediaTypeImageConfig
	}
	if _, again := c.passed.Load(keyOfDocument(desc)); again {
		return nil
	}
	contents := documents.Bounded{Provider: c.contents}
	check := contents.Check
	if c.way != nil {
		check = contents.CheckUsed
	}
	size, err := check(ctx, desc)
	if err == nil && c.way != nil {
		err = c.way.Read(desc, size)
	}
	if err != nil {
		return err
	}
	c.passed.Store(keyOfDocument(desc), true)
	return nil
}
