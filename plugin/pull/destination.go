// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/platforms"

	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
)

// imageStorer is the destination of a pull that unpacks.
type imageStorer interface {
	transfer.ImageStorer
	transfer.ImageUnpacker
}

// destination selects the content of a pull as containerd's client does, which
// CRI pulls with when it pulls by itself.
type destination struct {
	imageStorer
	// discard leaves layers without a reference, so that the garbage collection
	// removes them once the lease of the pull ends.
	discard bool
}

// ImageFilter lets the one manifest pass that suits the node best. The transfer
// service's own filter passes all of the exact platform, and none of compatible
// ones.
func (d *destination) ImageFilter(h images.HandlerFunc, contents content.Store) images.HandlerFunc {
	labels := images.ChildGCLabels
	if d.discard {
		labels = images.ChildGCLabelsFilterLayers
	}
	platform := platforms.Default()
	h = pwtransfer.ConfigTypes(pwtransfer.Documents(pwtransfer.Annotations(h), contents))
	h = images.SetChildrenMappedLabels(contents, h, labels)
	h = images.FilterPlatforms(h, platform)
	return images.LimitManifests(h, platform, 1)
}
