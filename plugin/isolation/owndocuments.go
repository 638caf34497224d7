// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
)

type ownDocumentsKey struct{}

// WithOwnDocuments returns a context for a pull from a source that has not shown yet that it
// has the image. Documents that are on the node already, in any namespace, are hidden from it
// until the source itself has delivered them: what they name is not the source's to know.
func WithOwnDocuments(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownDocumentsKey{}, true)
}

// OwnDocuments reports whether the context is for such a pull.
func OwnDocuments(ctx context.Context) bool {
	own, _ := ctx.Value(ownDocumentsKey{}).(bool)
	return own
}

// MayBeDocument reports whether content may be an index, a manifest or a config. Of what is
// here, the bytes say that, whatever a descriptor says: a registry that knows the digest of a
// document could call it a layer, or large, to see whether it is asked for it. A layer that
// begins as JSON does is taken for one, and fetched once more. What is not
// here may be in another namespace, from which containerd takes what has the size that is
// claimed.
func MayBeDocument(ctx context.Context, contents content.Provider, desc ocispec.Descriptor) bool {
	r, err := contents.ReaderAt(ctx, ocispec.Descriptor{Digest: desc.Digest})
	if err != nil {
		return desc.Size <= docker.MaxManifestSize
	}
	defer r.Close()
	if r.Size() > docker.MaxManifestSize { // it is none, but may be called one
		return desc.Size <= docker.MaxManifestSize && !images.IsLayerType(desc.MediaType)
	}
	return documents.MayBe(r)
}

// ownDocuments is what a pull may see of documents. Also one whose source has shown that it has the image
// sees none that somebody calls a layer: nobody fetches a layer whose snapshot is there, so that it need
// not have been shown.
type ownDocuments struct {
	// all says that the source has to deliver those, too, that are called documents.
	all bool
	// delivered is what the source has delivered to this pull that may be documents.
	delivered map[digest.Digest]bool
	// others is what was opened as no document. It can be labelled, and not be read.
	others map[digest.Digest]bool
}

// hidesFromReaders reports whether content of that size is a document that the source has not
// delivered.
func (c *contents) hidesFromReaders(d digest.Digest, size int64) bool {
	return c.own != nil && c.own.all && size <= docker.MaxManifestSize && !c.isDelivered(d)
}

// isDelivered reports whether the source has delivered a document.
func (c *contents) isDelivered(d digest.Digest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own.delivered[d]
}

// hides reports whether the pull must not know that the content is there.
func (c *contents) hides(info content.Info) bool {
	if !c.hidesFromReaders(info.Digest, info.Size) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.own.others[info.Digest]
}

// opens takes note of content that a writer is opened for, and reports whether it is to be
// written although it may be there. What the source has delivered is not written again.
func (c *contents) opens(ctx context.Context, desc ocispec.Descriptor) bool {
	if c.own == nil || !c.own.all && !documents.IsLayer(desc) || c.isDelivered(desc.Digest) {
		return false
	}
	if MayBeDocument(ctx, c.Store, desc) {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own.others[desc.Digest] = true
	return false
}

// has reports whether content is there that need not be written: no writer is opened for it, unless
// a descriptor claims that it is something else. In doubt it is not.
func (c *contents) has(ctx context.Context, d digest.Digest) bool {
	info, err := c.Store.Info(ctx, d)
	if err != nil {
		return false
	}
	return c.own == nil || !c.own.all || c.isDelivered(d) || !MayBeDocument(ctx, c.Store, ocispec.Descriptor{Digest: d, Size: info.Size})
}

// show shows a document that the source has delivered.
func (c *contents) show(d digest.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own.delivered[d] = true
}

func errHidden(d digest.Digest) error {
	return fmt.Errorf("content %v: %w", d, errdefs.ErrNotFound)
}

// Info returns that of content which is not hidden.
func (c *contents) Info(ctx context.Context, d digest.Digest) (content.Info, error) {
	info, err := c.Store.Info(ctx, d)
	if err == nil && c.hides(info) {
		return content.Info{}, errHidden(d)
	}
	return info, err
}

// Walk visits the content that is not hidden.
func (c *contents) Walk(ctx context.Context, visit content.WalkFunc, filters ...string) error {
	return c.Store.Walk(ctx, func(info content.Info) error {
		if c.hides(info) {
			return nil
		}
		return visit(info)
	}, filters...)
}

// ReaderAt opens content that is not hidden, whatever the descriptor says that it is: layers
// are unpacked without this view.
func (c *contents) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	r, err := c.Store.ReaderAt(ctx, desc)
	if err == nil && c.hidesFromReaders(desc.Digest, r.Size()) {
		return nil, errors.Join(errHidden(desc.Digest), r.Close())
	}
	if err == nil && c.layers != nil {
		c.layers.reads(desc, r)
	}
	return r, err
}

// Delete removes content that is not hidden.
func (c *contents) Delete(ctx context.Context, d digest.Digest) error {
	if c.own != nil && c.own.all {
		if _, err := c.Info(ctx, d); err != nil {
			return err
		}
	}
	return c.Store.Delete(ctx, d)
}
