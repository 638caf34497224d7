// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
	"github.com/pullwarden/pullwarden/plugin/isolation"
	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver"
)

// prefetchSource is a source that can have content sent before containerd asks for it.
type prefetchSource interface {
	Prefetching(resolver.Prefetch) (of resolver.Source, stop func())
}

const (
	// maxAhead bounds what all pulls together prefetch, in bytes that may be in memory: a
	// registry can send layers, and never the config, without which containerd reads none.
	maxAhead = 64 << 20
	// maxSent is how much of a layer may be in memory before it is read: a host may send that
	// much on a stream of HTTP/2, whatever size the layer is said to have.
	maxSent = 4 << 20
)

// prefetches is what pulls prefetch. The zero value is nothing.
type prefetches struct {
	underWay sync.Map     // of prefetchKey
	bytes    atomic.Int64 // of them, up to maxAhead
}

// prefetchKey is content for pulls by one caller from one registry, which wait for each
// other's downloads.
type prefetchKey struct {
	scope  isolation.Scope
	digest digest.Digest
}

// begin takes note that content is prefetched, and reports whether it was not already, and
// there is room for it. Documents, which are read as they come, take no more than they say.
func (p *prefetches) begin(scope isolation.Scope, desc ocispec.Descriptor) (end func(), ok bool) {
	key, size := prefetchKey{scope.OfRegistry(), desc.Digest}, desc.Size
	if images.IsLayerType(desc.MediaType) {
		size = maxSent
	}
	if p.bytes.Add(size) > maxAhead {
		p.bytes.Add(-size)
		return nil, false
	}
	if _, again := p.underWay.LoadOrStore(key, true); again {
		p.bytes.Add(-size)
		return nil, false
	}
	return sync.OnceFunc(func() {
		p.underWay.Delete(key)
		p.bytes.Add(-size)
	}), true
}

// prefetching returns what a plan is carried out from. The caller calls stop when it has
// been.
func (p *Puller) prefetching(plan *pwtransfer.Plan, snapshotter string) (from transfer.ImageFetcher, stop func()) {
	source, ok := plan.Source.(prefetchSource)
	if !ok {
		return plan.Source, func() {}
	}
	return source.Prefetching(resolver.Prefetch{
		Begin: func(ctx context.Context, desc ocispec.Descriptor) (end func(), ok bool) {
			if p.has(ctx, plan, desc) {
				return nil, false
			}
			return p.prefetches.begin(plan.Scope, desc)
		},
		Platform: platforms.Ordered(platforms.DefaultSpec()), // of the pull, which takes no compatible one
		Layers:   p.fetchesLayers(snapshotter),
		Unpacked: p.unpacked(snapshotter),
	})
}

// has reports whether content is on the node for the pull of a plan, or some of it has come to a
// pull of that source. In doubt it is.
func (p *Puller) has(ctx context.Context, plan *pwtransfer.Plan, desc ocispec.Descriptor) bool {
	hidden := (plan.OwnDocuments || documents.IsLayer(desc)) && isolation.MayBeDocument(ctx, p.contents, desc)
	if _, err := p.contents.Info(ctx, desc.Digest); !hidden && !errdefs.IsNotFound(err) {
		return true
	}
	_, err := isolation.View(p.contents, plan.Scope).Status(ctx, remotes.MakeRefKey(ctx, desc))
	return !errdefs.IsNotFound(err)
}

// fetchesLayers reports whether a pull fetches all layers that are neither on the node nor
// unpacked. Snapshotters that are told which image a layer is of may have it elsewhere.
func (p *Puller) fetchesLayers(snapshotter string) bool {
	if p.settings.Local {
		return !p.settings.SnapshotAnnotations
	}
	return p.exports[snapshotter][remoteAnnotations] != "true"
}

// unpacked returns what reports whether a layer is unpacked, where layers are discarded once
// they are, so that those of other images are not on the node. Elsewhere it is nil. In doubt a
// layer is unpacked.
func (p *Puller) unpacked(snapshotter string) func(context.Context, digest.Digest) bool {
	if !p.settings.Local || !p.settings.DiscardLayers {
		return nil
	}
	return func(ctx context.Context, chainID digest.Digest) bool {
		sn := p.snapshotters[snapshotter]
		if sn == nil {
			return true
		}
		_, err := sn.Stat(ctx, chainID.String())
		return !errdefs.IsNotFound(err)
	}
}
