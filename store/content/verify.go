// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

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

// VerifyContent fetches every byte of the image of target, for this platform,
// and returns nil when all of it has the digests of the image that is here.
// Nothing is stored. The error is errdefs.ErrFailedPrecondition for bytes that
// differ.
func (i *Images) VerifyContent(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher) error {
	p := platforms.Default()
	children := images.LimitManifests(images.FilterPlatforms(images.ChildrenHandler(i.db.ContentStore()), p), p, 1)
	verify := func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		return nil, i.verifyBlob(ctx, desc, from)
	}
	if err := images.Walk(ctx, images.Handlers(images.HandlerFunc(verify), children), target); err != nil {
		return fmt.Errorf("take %s again: %w", target.Digest, err)
	}
	return nil
}

// VerifyPossession returns nil if the registry behind the fetcher has the image
// of target for this platform, and does not only know digests: it delivers the
// config. The config names the layers by their content, and a caller who may
// read it may read them. delivered reports whether a blob has come from there
// already; it is not fetched again then. Nothing is stored. The error is
// errdefs.ErrFailedPrecondition for bytes that differ.
func (i *Images) VerifyPossession(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher, delivered func(digest.Digest) bool) error {
	config, err := images.Config(ctx, i.db.ContentStore(), target, platforms.Default())
	if err != nil {
		return fmt.Errorf("config of %s: %w", target.Digest, err)
	}
	if delivered(config.Digest) {
		return nil
	}
	if err := i.verifyBlob(ctx, config, from); err != nil {
		return fmt.Errorf("take the config of %s again: %w", target.Digest, err)
	}
	return nil
}

// verifyBlob takes content from the registry, never from the urls of its
// descriptor: those prove nothing about a registry. It reads no more than the
// descriptor says there is, and ends, as a pull does, when nothing comes any more.
// containerd does not read the digest of a layer that it does not fetch, because its
// snapshot is there: it may be none.
func (i *Images) verifyBlob(ctx context.Context, desc ocispec.Descriptor, from transfer.Fetcher) error {
	if err := desc.Digest.Validate(); err != nil {
		return fmt.Errorf("digest %.100q: %w: %w", desc.Digest, err, errdefs.ErrFailedPrecondition)
	}
	desc.URLs = nil
	ctx, progress := watch(ctx, i.patience)
	defer progress.stop()
	r, err := from.Fetch(ctx, desc)
	if err != nil {
		return progress.judge(err)
	}
	defer r.Close()
	verifier := desc.Digest.Verifier()
	if _, err := io.Copy(verifier, io.LimitReader(progress.reader(r), desc.Size+1)); err != nil {
		return progress.judge(err)
	}
	if !verifier.Verified() {
		return fmt.Errorf("the content of %s differs: %w", desc.Digest, errdefs.ErrFailedPrecondition)
	}
	return nil
}
