// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/store"
)

// Complete has containerd pull an image whose content is there: it unpacks it for
// the snapshotter of the request and gives it the names that CRI knows images
// by. No registry is asked. CRI that pulls by itself would ask one, and has to
// do it when a container is created. A record that says nothing of who may have
// the image is made to say what the state does, before it is there.
func (p *pull) Complete(ctx context.Context, target ocispec.Descriptor, state store.State) error {
	if p.localPull {
		return nil
	}
	plan := &pwtransfer.Plan{
		Reference: p.name,
		Source:    present{p.name, target},
		State: func(_ digest.Digest, before store.State) store.State {
			if before.Restricted {
				return before
			}
			return state
		},
	}
	_, err := p.inner.PullImage(pwtransfer.WithPlan(ctx, plan), p.request)
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
