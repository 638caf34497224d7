// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// VerifyPossession returns nil if the registry behind the fetcher has the image
// of target for this platform, and does not only know digests: it delivers the indexes,
// the manifest and the config. The config names the layers by their content, and a caller
// who may read it may read them. A document is asked for only when that which names it has
// been delivered, so that the registry learns no digest that it has not told, and read only
// when it has been itself, so that no error tells what the node has. delivered reports whether
// a blob has come from there already; it is not fetched again then. Nothing is stored. The error
// is errdefs.ErrFailedPrecondition for bytes that differ.
func (i *Images) VerifyPossession(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher, delivered func(digest.Digest) bool) error {
	taken := map[digest.Digest]bool{}
	has := func(d digest.Digest) bool { return taken[d] || delivered(d) }
	contents := deliveredContent{i.documents(), has}
	take := func(desc ocispec.Descriptor) error {
		if has(desc.Digest) {
			return nil
		}
		if err := i.verifyBlob(ctx, desc, from, nil); err != nil {
			return fmt.Errorf("take %s of %s again: %w", desc.Digest, target.Digest, err)
		}
		taken[desc.Digest] = true
		return nil
	}
	desc := target
	for images.IsIndexType(desc.MediaType) {
		if err := take(desc); err != nil {
			return err
		}
		var err error
		if desc, err = manifestIn(ctx, contents, desc); err != nil {
			return fmt.Errorf("%w, of %s", err, target.Digest)
		}
	}
	if err := take(desc); err != nil {
		return err
	}
	config, err := images.Config(ctx, contents, desc, platforms.Default())
	if err != nil {
		return fmt.Errorf("config of %s: %w", target.Digest, err)
	}
	if err := take(config); err != nil {
		return err
	}
	// containerd finds the config in its own way, which must be the same.
	if used, err := images.Config(ctx, contents, target, platforms.Default()); err != nil {
		return fmt.Errorf("config of %s: %w", target.Digest, err)
	} else if used.Digest != config.Digest {
		return fmt.Errorf("config of %s is not that of %s: %w", target.Digest, desc.Digest, errdefs.ErrFailedPrecondition)
	}
	return nil
}

// deliveredContent is content of which nothing can be read that a registry has not delivered,
// whether or not the node has it.
type deliveredContent struct {
	content.Provider
	delivered func(digest.Digest) bool
}

// ReaderAt implements content.Provider.
func (c deliveredContent) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	if !c.delivered(desc.Digest) {
		return nil, fmt.Errorf("content %v is not delivered: %w", desc.Digest, errdefs.ErrNotFound)
	}
	return c.Provider.ReaderAt(ctx, desc)
}
