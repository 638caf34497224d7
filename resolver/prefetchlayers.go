// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync/atomic"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// defaultDownloads is how many downloads a pull makes at a time that has no bound.
const defaultDownloads = 4

// limit takes note of the limits of a pull. One download stays free for what is not
// prefetched, so that content which nobody takes holds up nothing. Small layers beyond that wait
// until they need no place among the downloads. Layers that are fetched in chunks take the
// connections of several.
func (p *prefetcher) limit(options []transfer.ImageResolverOption) {
	var limits transfer.ImageResolverOptions
	for _, set := range options {
		set(&limits)
	}
	if p.Layers && limits.Performances.ConcurrentLayerFetchBuffer == 0 {
		p.layers.Store(int64(cmp.Or(limits.Performances.MaxConcurrentDownloads, defaultDownloads) - 1))
		if p.layers.Load() > 0 {
			p.small.Store(smallRoom)
		}
	}
}

// ofManifest prefetches what a manifest names.
func (p *prefetcher) ofManifest(f *fetcher, manifest ocispec.Manifest) {
	if p.Unpacked == nil {
		p.document(f, manifest.Config)
		p.layersOf(f, manifest.Layers)
		return
	}
	p.mu.Lock()
	if p.layersBy == nil {
		p.layersBy = map[digest.Digest][]ocispec.Descriptor{}
	}
	p.layersBy[manifest.Config.Digest] = manifest.Layers
	p.mu.Unlock()
	p.document(f, manifest.Config)
}

// ofConfig prefetches the layers of a config that was waited for: the first one that is not
// unpacked, and what follows, as containerd fetches them.
func (p *prefetcher) ofConfig(f *fetcher, d digest.Digest, data []byte) {
	p.mu.Lock()
	layers := p.layersBy[d]
	delete(p.layersBy, d)
	p.mu.Unlock()
	var config struct {
		RootFS ocispec.RootFS `json:"rootfs"`
	}
	if len(layers) == 0 || json.Unmarshal(data, &config) != nil || len(config.RootFS.DiffIDs) != len(layers) {
		return
	}
	lacks := slices.IndexFunc(identity.ChainIDs(config.RootFS.DiffIDs), func(chainID digest.Digest) bool {
		return !p.Unpacked(p.ctx, chainID)
	})
	if lacks >= 0 {
		p.layersOf(f, layers[lacks:])
	}
}

// layersOf prefetches layers of a manifest: of all that a pull has, no more together than the
// limit, and small ones beyond that.
func (p *prefetcher) layersOf(f *fetcher, all []ocispec.Descriptor) {
	for _, desc := range all {
		if !images.IsLayerType(desc.MediaType) || desc.Digest.Validate() != nil {
			continue
		}
		if take(&p.layers, 1) {
			if !p.begin(f, desc, false) {
				p.layers.Add(1)
			}
			continue
		}
		if room := roomOf(desc.Size); room > 0 && f.downloads != nil && take(&p.small, room) && !p.begin(f, desc, true) {
			p.small.Add(room)
		}
	}
}

// take takes some of what is left, or nothing.
func take(left *atomic.Int64, n int64) bool {
	if left.Add(-n) < 0 {
		left.Add(n)
		return false
	}
	return true
}
