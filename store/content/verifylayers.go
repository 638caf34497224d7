// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/pullwarden/pullwarden/internal/documents"
)

// layersAtOnce bounds the layers that one image asks for at the same time: as many as CRI downloads by default.
const layersAtOnce = 3

// VerifyLayers returns nil if the registry behind the fetcher has the layers of the image of target for this platform. A node
// that has them asks for none of them, and registries may take a manifest of layers that they do not look for, or that another
// repository has. It asks for the last byte of each, once; that which has been delivered, as delivered reports, is not
// asked for. One of another size is taken as a whole, as in a comparison. Nothing is stored. The error is errdefs.ErrFailedPrecondition
// for bytes that differ.
func (i *Images) VerifyLayers(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher, delivered func(digest.Digest) bool) error {
	manifest, err := images.Manifest(ctx, i.documents(), target, platforms.Default())
	if err != nil {
		return fmt.Errorf("manifest of %s: %w", target.Digest, err)
	}
	asks, ctx := errgroup.WithContext(ctx)
	asks.SetLimit(layersAtOnce)
	asked := map[digest.Digest]bool{}
	for _, layer := range documents.Layers(manifest) {
		if asked[layer.Digest] || delivered(layer.Digest) {
			continue
		}
		asked[layer.Digest] = true
		asks.Go(func() error {
			if err := i.verifyEnd(ctx, layer, from); err != nil {
				return fmt.Errorf("ask for layer %s of %s: %w", layer.Digest, target.Digest, err)
			}
			return nil
		})
	}
	return asks.Wait()
}

// verifyEnd takes the last byte of content from the registry, and all of it where no host has given that: one may refuse parts, or have other
// content, of which the digest tells. The error of the first host says nothing of those behind it.
func (i *Images) verifyEnd(ctx context.Context, desc ocispec.Descriptor, from transfer.Fetcher) error {
	if err := validate(desc.Digest); err != nil {
		return err
	}
	desc.URLs = nil
	n, err := i.readEnd(ctx, desc, from)
	_, stalled := errors.AsType[*stalledError](err)
	if err == nil && n == 1 || err != nil && (stalled || ctx.Err() != nil) {
		return err
	}
	return i.verifyBlob(ctx, desc, from, nil)
}

// readEnd returns how much there is behind all bytes but the last, and no more than 2; 0 where the fetcher can take no parts.
func (i *Images) readEnd(ctx context.Context, desc ocispec.Descriptor, from transfer.Fetcher) (n int64, err error) {
	ctx, progress := watch(ctx, i.patience, from)
	defer progress.stop()
	r, err := from.Fetch(ctx, desc)
	if err != nil {
		return 0, progress.judge(err)
	}
	defer r.Close()
	seeker, seeks := r.(io.Seeker)
	if !seeks || desc.Size <= 1 {
		return 0, nil
	}
	if _, err = seeker.Seek(desc.Size-1, io.SeekStart); err == nil {
		n, err = io.Copy(io.Discard, io.LimitReader(progress.reader(r), 2))
	}
	if err != nil {
		return 0, progress.judge(err)
	}
	return n, nil
}
