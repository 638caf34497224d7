// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"slices"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
	"github.com/pullwarden/pullwarden/resolver/provenance"
)

// deliveries are the sources of the content that one pull has fetched, also of that which was
// there before, whose labels name others. The zero value is ready. Safe for concurrent use.
type deliveries struct {
	all sync.Map
	// servedBy tells who has served a document to a pull with documents of its own, also beside
	// what was fetched; nil for other pulls.
	servedBy func(digest.Digest) provenance.Provenance
}

// add adds content whose source is known.
func (d *deliveries) add(of digest.Digest, p provenance.Provenance) {
	if p.Known() {
		d.all.Store(of, p)
	}
}

// of returns the sources of content that the pull has fetched.
func (d *deliveries) of(fetched digest.Digest) (p provenance.Provenance, ok bool) {
	v, ok := d.all.Load(fetched)
	if !ok {
		return provenance.Provenance{}, false
	}
	return v.(provenance.Provenance), true
}

// has reports whether the pull has fetched the content.
func (d *deliveries) has(fetched digest.Digest) bool {
	_, ok := d.of(fetched)
	return ok
}

// hasLayers reports whether the pull has fetched all layers that run of the image of target from hosts of its name. One with urls may have
// come from there.
func (d *deliveries) hasLayers(ctx context.Context, contents content.Provider, target ocispec.Descriptor) bool {
	manifest, err := images.Manifest(ctx, contents, target, platforms.Default())
	return err == nil && !slices.ContainsFunc(documents.Layers(manifest), func(layer ocispec.Descriptor) bool { return !d.has(layer.Digest) || len(layer.URLs) > 0 })
}

// hosts are all that have served what the pull has fetched.
func (d *deliveries) hosts() (all provenance.Provenance) {
	d.all.Range(func(_, p any) bool {
		all = all.Add(p.(provenance.Provenance))
		return true
	})
	all.Reference = ""
	slices.Sort(all.Hosts)
	return all
}

// document returns the sources of a document, and whether the pull's own source has delivered it. To a pull with
// documents of its own that is so with all of them: what it has not fetched had come from its source before
// containerd was killed, and others may have delivered the same.
func (d *deliveries) document(document digest.Digest) (p provenance.Provenance, ok bool) {
	if p, ok = d.of(document); ok || d.servedBy == nil {
		return p, ok
	}
	return d.servedBy(document), true
}
