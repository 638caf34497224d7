// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Prefetch says what a pull asks for before containerd does, which asks for one after the
// other: the manifest in an index, the config and the layers that a manifest names.
type Prefetch struct {
	// Begin reports whether content is neither on the node nor being fetched. Then it is
	// prefetched, and end is called when that has come to an end, once or more. It is
	// called with the context of the pull.
	Begin func(ctx context.Context, desc ocispec.Descriptor) (end func(), ok bool)
	// Platform chooses the manifest of an index.
	Platform platforms.MatchComparer
	// Layers says that the pull will fetch the layers that are not on the node: no
	// snapshotter can have them from elsewhere.
	Layers bool
	// Unpacked reports whether a layer is unpacked, by its chain ID, so that the pull does
	// not fetch it although it is not on the node. Layers are prefetched when the config is there
	// then, which tells their chain IDs. It is called with the context of the pull; nil = the
	// pull fetches all that is not on the node.
	Unpacked func(ctx context.Context, chainID digest.Digest) bool
}

// maxDocuments bounds the documents that are prefetched for one pull, which are in memory until
// it ends: an image has a manifest and a config, and an index may lead to another. Whoever
// makes images can have any number in them.
const maxDocuments = 3

// prefetcher prefetches for one pull. It stores nothing: what nobody takes is dropped.
type prefetcher struct {
	Prefetch
	ctx    context.Context //nolint:containedctx // of the pull: containerd ends those of fetches before it fetches layers
	layers atomic.Int64    // that may still be asked for, beside documents
	small  atomic.Int64    // room for small layers beyond these, in bytes

	documents atomic.Int64 // that were asked for

	running sync.WaitGroup
	mu      sync.Mutex
	all     map[digest.Digest]*prefetched
	stopped bool
	// layersBy are the layers of manifests by their configs, which are waited for.
	layersBy map[digest.Digest][]ocispec.Descriptor
}

// read begins with what a document names that the pull has read.
func (p *prefetcher) read(f *fetcher, desc ocispec.Descriptor, data []byte) {
	switch {
	case len(data) > maxKept:
	case images.IsIndexType(desc.MediaType):
		var index ocispec.Index
		if json.Unmarshal(data, &index) == nil {
			p.manifest(f, index.Manifests)
		}
	case images.IsManifestType(desc.MediaType):
		var manifest ocispec.Manifest
		if json.Unmarshal(data, &manifest) == nil {
			p.ofManifest(f, manifest)
		}
	case images.IsConfigType(desc.MediaType):
		p.ofConfig(f, desc.Digest, data)
	}
}

// manifest prefetches the manifest of an index that suits the node best, as containerd
// chooses it.
func (p *prefetcher) manifest(f *fetcher, all []ocispec.Descriptor) {
	suits := slices.DeleteFunc(all, func(d ocispec.Descriptor) bool { return d.Platform == nil || !p.Platform.Match(*d.Platform) })
	if len(suits) == 0 {
		return
	}
	best := suits[0]
	for _, other := range suits[1:] {
		if p.Platform.Less(*other.Platform, *best.Platform) {
			best = other
		}
	}
	p.document(f, best)
}

func (p *prefetcher) document(f *fetcher, desc ocispec.Descriptor) {
	if !isDocument(desc) || desc.Size > maxKept {
		return
	}
	if p.documents.Add(1) > maxDocuments || !p.begin(f, desc, false) {
		p.documents.Add(-1)
	}
}

// begin prefetches content from the hosts of the pull, unless it says itself where it is,
// or has it with it. A spare one takes no place among the downloads.
func (p *prefetcher) begin(f *fetcher, desc ocispec.Descriptor, spare bool) bool {
	if desc.Size <= 0 || len(desc.URLs) > 0 || len(desc.Data) > 0 {
		return false
	}
	end, ok := p.Begin(p.ctx, desc)
	if !ok {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, again := p.all[desc.Digest]; again || p.stopped {
		end()
		return false
	}
	ctx, cancel := context.WithCancelCause(p.ctx)
	e := &prefetched{
		desc: desc, end: end, cancel: cancel, done: make(chan struct{}),
		log: &fetchLog{
			redactor: f.log.redactor, chosen: f.log.chosen, progress: &progress{}, openness: f.log.openness, left: f.log.left, heard: f.log.heard,
		},
	}
	e.of = &fetch{log: e.log, once: true}
	e.of.spare.Store(spare)
	p.all[desc.Digest] = e
	p.running.Go(func() {
		defer close(e.done)
		e.load(ctx, f)
	})
	return true
}

// take returns what is prefetched of content, once; nil for none.
func (p *prefetcher) take(desc ocispec.Descriptor) *prefetched {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.all[desc.Digest]
	if !ok || e.taken || e.desc.MediaType != desc.MediaType || e.desc.Size != desc.Size {
		return nil
	}
	e.taken = true
	return e
}

// stop ends all that is prefetched. The pull has ended.
func (p *prefetcher) stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	for _, e := range p.all {
		e.cancel(nil)
	}
	p.running.Wait()
	for _, e := range p.all {
		if e.rc != nil && !e.taken {
			_ = e.rc.Close()
		}
		e.end()
	}
}
