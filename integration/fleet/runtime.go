// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"

	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/store"
)

// containerd is what a node has in its place, for requests for one name: an
// engine.Runtime. It downloads what is missing, and stores it.
type containerd struct {
	node *node
	name string
}

// ImageID implements engine.Runtime.
func (c containerd) ImageID(ctx context.Context) (string, error) {
	record, err := c.node.records.Get(ctx, c.name)
	if errdefs.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return c.node.fleet.catalog.get(record.Target.Digest).config.desc.Digest.String(), nil
}

// Pull implements engine.Runtime.
func (c containerd) Pull(ctx context.Context, plan *transfer.Plan) (string, error) {
	_, target, err := plan.Source.Resolve(ctx)
	if err != nil {
		return "", err
	}
	fetcher, err := plan.Source.Fetcher(ctx, plan.Reference)
	if err != nil {
		return "", err
	}
	if err := fetch(ctx, fetcher, target); err != nil {
		return "", err
	}
	i := c.node.fleet.catalog.get(target.Digest)
	if err := fetch(ctx, fetcher, i.config.desc); err != nil {
		return "", err
	}
	for _, layer := range []ocispec.Descriptor{i.base.desc, i.top.desc} {
		if c.node.records.has(layer.Digest) {
			continue
		}
		if err := fetch(ctx, fetcher, layer); err != nil {
			return "", err
		}
	}
	if plan.Verify != nil {
		if err := plan.Verify(ctx, target); err != nil {
			return "", err
		}
	}
	c.node.records.put(i, func(before store.State) store.State { return plan.State(target.Digest, before) }, c.name, c.name[:len(c.name)-len(tagSuffix)]+"@"+target.Digest.String())
	return i.config.desc.Digest.String(), nil
}

// Complete implements engine.Runtime. Nothing is ever missing.
func (c containerd) Complete(context.Context, ocispec.Descriptor, *transfer.Plan) error {
	return nil
}

// StockPull implements engine.Runtime. No arm observes.
func (c containerd) StockPull(context.Context) error { return errdefs.ErrNotImplemented }
