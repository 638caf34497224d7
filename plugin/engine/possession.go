// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver"
)

// possession says that an image came by this repository before: its hosts have shown then
// that they have it. proved says that the caller may have it, by what is known of it.
type possession struct {
	known, proved bool
	held          held // see Grant
}

// ownDocuments reports whether containerd must read no document that the node has. To a caller who
// has proved nothing the registry may refuse them: it would ask for what they name, and tell so
// in an error.
func (p possession) ownDocuments() bool { return !p.known || !p.proved }

func (e *Engine) possesses(ctx context.Context, t task, target digest.Digest) (p possession, err error) {
	record, err := e.Records.Get(ctx, t.canonical(target))
	switch {
	case errdefs.IsNotFound(err) || err == nil && record.Target.Digest != target:
		return p, nil
	case err != nil:
		return p, fmt.Errorf("read the image record: %w", err)
	}
	grant, _, err := e.authorize(ctx, t, record, e.trusted(ctx, t))
	return possession{known: true, proved: grant.Given(), held: grant.held}, err
}

// verifyPossession refuses an image that the hosts of the name do not have
// themselves. A registry can answer with any digest, and nobody asks it for content
// that is on the node: someone who knows the digest of another's private image
// could have it by the name of a registry of their own.
func (e *Engine) verifyPossession(ctx context.Context, t task, target ocispec.Descriptor, source resolver.Source) error {
	fetcher, err := source.Fetcher(ctx, t.Name)
	if err != nil {
		return err
	}
	return e.Content.VerifyPossession(ctx, target, fetcher, source.Delivered)
}

// runs is the manifest that runs of an image that is here; "" = nobody knows.
func (e *Engine) runs(ctx context.Context, t task, target ocispec.Descriptor) digest.Digest {
	image, err := e.Content.Runnable(ctx, target, t.Snapshotter)
	if err != nil {
		return ""
	}
	return image.Manifest
}
