// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"context"
	"fmt"
	"math"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/usage"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
)

// Size returns the size in bytes that CRI shows of the image of target, and the ID by
// which CRI knows that. It is the compressed size that the documents claim: of the
// manifest for this platform, its config and its layers, whether or not other images have
// them too. A sum that no image can have is taken for the largest.
func (i *Images) Size(ctx context.Context, target ocispec.Descriptor) (id digest.Digest, bytes int64, err error) {
	l, err := i.layout(ctx, i.documents(), target)
	if err != nil {
		return "", 0, err
	}
	contents := documents.WithInfo(i.db.ContentStore())
	bytes, err = usage.CalculateImageUsage(ctx, images.Image{Target: target}, contents, usage.WithManifestLimit(platforms.Default(), 1), usage.WithManifestUsage())
	if err != nil {
		return "", 0, fmt.Errorf("size of %s: %w", target.Digest, err)
	}
	if bytes < 0 {
		bytes = math.MaxInt64
	}
	return l.imageID, bytes, nil
}
