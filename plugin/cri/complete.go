// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
)

// Complete pulls an image whose content is there: that unpacks it for the
// snapshotter of the request, and gives it the names that CRI knows images by. No
// registry is asked: the plan's source becomes what is there.
func (n *node) Complete(ctx context.Context, target ocispec.Descriptor, plan *pwtransfer.Plan) error {
	plan.Source = present{plan.Reference, target}
	_, err := n.puller.Pull(ctx, plan, n.snapshotter)
	return err
}

// present is a source of content that is on the node.
type present struct {
	name   string
	target ocispec.Descriptor
}

// String names the source in the progress of a pull.
func (p present) String() string { return fmt.Sprintf("what is there (%s)", p.target.Digest) }

// Resolve answers what the record points at.
func (p present) Resolve(context.Context) (string, ocispec.Descriptor, error) {
	return p.name, p.target, nil
}

// Fetcher returns a fetcher that has nothing to give.
func (p present) Fetcher(context.Context, string) (transfer.Fetcher, error) { return p, nil }

// Fetch is called for content that is not there after all.
func (p present) Fetch(_ context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	return nil, fmt.Errorf("%s is not on the node: %w", desc.Digest, errdefs.ErrNotFound)
}
