// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// ImageFilter selects the content of a pull, as containerd's own store does.
// Pulls with a plan have the digest that was compared, also where containerd
// alone would convert the manifest: see ConfigTypes and Documents. No pull lets images
// label snapshots as they like: see Annotations.
//
// Of an index, pulls with a plan take the one manifest that runs, as CRI picks it. containerd
// alone fetches and unpacks all that are for the node's platform, side by side, and an index has
// room for thousands.
func (s *labelledStore) ImageFilter(h images.HandlerFunc, contents content.Store) images.HandlerFunc {
	h = Annotations(h)
	if s.plan == nil {
		return s.imageStore.ImageFilter(h, contents)
	}
	h = s.imageStore.ImageFilter(ConfigTypes(Documents(h, contents)), contents)
	return images.LimitManifests(h, platforms.Default(), 1)
}

// mediaTypeOctets is to everybody what application/octet-stream is, but to who looks for
// legacy configs.
const mediaTypeOctets = "application/x-octet-stream"

// ConfigTypes lets the config of a manifest pass as an image's where the manifest
// gives it the media type application/octet-stream, as some registries once wrote
// it (https://github.com/distribution/distribution/issues/1622). For such a
// manifest, containerd stores another one, with another digest, and neither
// fetches nor unpacks the layers. It does so once any content of the image has that
// type, so that what is no config gets another one, which nobody knows either. With these
// the image is like any other, under the digest that the registry has.
func ConfigTypes(h images.HandlerFunc) images.HandlerFunc {
	return func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		children, err := h(ctx, desc)
		// The config is the first child of a manifest: images.Children.
		if err != nil || len(children) == 0 || !images.IsManifestType(desc.MediaType) || children[0].MediaType != docker.LegacyConfigMediaType {
			return children, err
		}
		children[0].MediaType = images.MediaTypeDockerSchema2Config
		for i := range children {
			if children[i].MediaType == docker.LegacyConfigMediaType {
				children[i].MediaType = mediaTypeOctets
			}
		}
		return children, nil
	}
}
