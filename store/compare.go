// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Compare takes every byte of the image of target, for this platform, from the
// fetcher, and returns nil when all of it has the digests of the image that is
// here. Nothing is stored. Bytes that differ are errdefs.ErrFailedPrecondition.
func (s *Store) Compare(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher) error {
	p := platforms.Default()
	children := images.LimitManifests(images.FilterPlatforms(images.ChildrenHandler(s.db.ContentStore()), p), p, 1)
	compare := func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		return nil, compareOne(ctx, desc, from)
	}
	if err := images.Walk(ctx, images.Handlers(images.HandlerFunc(compare), children), target); err != nil {
		return fmt.Errorf("take %s again: %w", target.Digest, err)
	}
	return nil
}

// Possesses returns nil if whoever is behind the fetcher has the image of target
// for this platform, and does not only know digests: they give its config. The
// config names the layers by their content, and whoever may read it may read
// them. given reports what they have given already. Nothing is stored.
func (s *Store) Possesses(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher, given func(digest.Digest) bool) error {
	config, err := images.Config(ctx, s.db.ContentStore(), target, platforms.Default())
	if err != nil {
		return fmt.Errorf("config of %s: %w", target.Digest, err)
	}
	if given(config.Digest) {
		return nil
	}
	if err := compareOne(ctx, config, from); err != nil {
		return fmt.Errorf("take the config of %s again: %w", target.Digest, err)
	}
	return nil
}

func compareOne(ctx context.Context, desc ocispec.Descriptor, from transfer.Fetcher) error {
	r, err := from.Fetch(ctx, desc)
	if err != nil {
		return err
	}
	defer r.Close()
	verifier := desc.Digest.Verifier()
	if _, err := io.Copy(verifier, r); err != nil {
		return err
	}
	if !verifier.Verified() {
		return fmt.Errorf("the content of %s differs: %w", desc.Digest, errdefs.ErrFailedPrecondition)
	}
	return nil
}
