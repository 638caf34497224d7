// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"context"
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxSize bounds what is said of the size of content, in bytes: CRI adds up what an image names, which
// are no more than maxReferences, and what of that is on the node nobody fetches, or measures.
const maxSize = 1 << 48

// CheckChildren returns an error, which is ErrInvalid, for what containerd does not fetch of a
// document, and for what CRI cannot read as the image that runs: content without a digest, or
// with a size that none has where this node is to fetch it; an index of which no manifest runs, or CRI
// measures another entry than that; manifests and indexes that a manifest names, below which CRI looks
// for more of the image.
// Of an index containerd fetches one manifest alone, and what is said of others does not matter.
func CheckChildren(ctx context.Context, parent ocispec.Descriptor, children []ocispec.Descriptor) error {
	for i, child := range children {
		if err := CheckDigest(fmt.Sprintf("child %d of %s", i, parent.Digest), child.Digest); err != nil {
			return invalid{err}
		}
	}
	if images.IsIndexType(parent.MediaType) {
		ours, err := forNode(listed(children))(ctx, parent)
		if errdefs.IsNotFound(err) {
			return nil // who pulls tells that nothing is for this node
		}
		if err == nil && !namesOthers(ours[0]) {
			err = invalid{fmt.Errorf("the index %s has %s for this node, which is no manifest but %q", parent.Digest, ours[0].Digest, ours[0].MediaType)}
		}
		if err == nil {
			err = checkMeasured(ctx, parent, ours[0], children)
		}
		if err != nil {
			return err
		}
		children = ours
	}
	for _, child := range children {
		switch {
		case child.Size <= 0, child.Size > maxSize:
			return invalid{fmt.Errorf("%s, of %s, has the size %d", child.Digest, parent.Digest, child.Size)}
		case images.IsManifestType(parent.MediaType) && namesOthers(child):
			return invalid{fmt.Errorf("a manifest names %s, which is an %s", child.Digest, child.MediaType)}
		}
	}
	return nil
}

// checkMeasured returns an error unless CRI adds up the size of that entry of an index: of those
// for other platforms, too, it takes the best, and one without a platform after all others. It
// would read what the pull has not fetched, and nobody has looked at: a manifest that only another
// image has, or a layer.
func checkMeasured(ctx context.Context, index, runs ocispec.Descriptor, children []ocispec.Descriptor) error {
	measured, err := images.LimitManifests(listed(slices.Clone(children)), platforms.Default(), 1)(ctx, index)
	if err != nil {
		return err
	}
	if m := measured[0]; m.Digest != runs.Digest || m.MediaType != runs.MediaType || m.Size != runs.Size {
		return invalid{fmt.Errorf("the index %s has no entry of this node's platform: %s, which has none, would run, and CRI would measure %s",
			index.Digest, runs.Digest, m.Digest)}
	}
	return nil
}

// listed is a handler that lists these.
func listed(children []ocispec.Descriptor) images.HandlerFunc {
	return func(context.Context, ocispec.Descriptor) ([]ocispec.Descriptor, error) { return children, nil }
}
