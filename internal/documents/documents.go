// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package documents bounds the manifests, indexes and configs that are read as a whole.
package documents

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Bounded is content of which nothing can be read that is too large for a document,
// whatever names it as one: a pull sees what it fetches, and of an index that may be less
// than what is here.
type Bounded struct{ content.Provider }

// ReaderAt implements content.Provider.
func (b Bounded) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	r, err := b.Provider.ReaderAt(ctx, desc)
	if err != nil {
		return nil, err
	}
	if err := Check(desc.Digest, r.Size()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Check returns an error for a document of more than docker.MaxManifestSize bytes.
func Check(d digest.Digest, size int64) error {
	if size > docker.MaxManifestSize {
		return fmt.Errorf("%s is a document of %d bytes: more than %d are not allowed", d, size, docker.MaxManifestSize)
	}
	return nil
}
