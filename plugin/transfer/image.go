// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
	"github.com/pullwarden/pullwarden/resolver/provenance"
)

// imageSources is where an image came from.
type imageSources struct {
	// from has the reference as the host of the manifest or index knows it, and
	// all hosts that served anything of the image that is here, in the order in
	// which the content is listed.
	from provenance.Provenance
	// unknown says that some of it came from nobody knows where.
	unknown bool
}

// add adds the hosts of a part of the image.
func (s *imageSources) add(p provenance.Provenance) {
	s.unknown = s.unknown || !p.Known()
	s.from = s.from.Add(p)
}

// imageWalk collects the sources of the content of an image, and of its layers
// in the snapshots of some snapshotters (chain.go). A layer's content may be gone when its
// snapshot is still there: it is discarded, or the image is removed and a
// container of it is not. Nobody fetches such a layer again. Where layers are
// discarded, a snapshot therefore keeps the provenance of its layer in labels of
// its own; elsewhere such a layer has no known source.
type imageWalk struct {
	contents     *contentSources
	delivered    *deliveries
	snapshotters []snapshots.Snapshotter
	target       ocispec.Descriptor
	sources      imageSources
	seen         map[visit]bool
	unpacked     map[digest.Digest][]unpackedContent // by diff ID; nil = not listed yet
}

// visit is a document as a descriptor calls it: what is below it depends on that.
type visit struct {
	digest                   digest.Digest
	manifest, index, foreign bool
}

func visitOf(desc ocispec.Descriptor) visit {
	return visit{desc.Digest, images.IsManifestType(desc.MediaType), images.IsIndexType(desc.MediaType), foreign(desc)}
}

// foreign reports whether an index says of a manifest that it is not for this node, which
// then never runs it.
func foreign(desc ocispec.Descriptor) bool {
	return desc.Platform != nil && !platforms.Default().Match(*desc.Platform)
}

// ofImage returns where an image came from that is, or is to be, unpacked by
// the snapshotters, to a pull that has fetched what is delivered.
func (s *contentSources) ofImage(ctx context.Context, target ocispec.Descriptor, delivered *deliveries, unpackedBy ...snapshots.Snapshotter) (imageSources, error) {
	w := &imageWalk{contents: s, delivered: delivered, snapshotters: unpackedBy, target: target, seen: map[visit]bool{}}
	if err := w.document(ctx, target); err != nil {
		return imageSources{unknown: true}, err
	}
	return w.sources, nil
}

// document visits an index or a manifest, and all below it, once: nested indexes
// can name each other so often that there are more ways to a document than anybody
// could walk. A name as something that has nothing below it is no visit to a
// manifest. One of another platform is not there.
func (w *imageWalk) document(ctx context.Context, desc ocispec.Descriptor) error {
	v := visitOf(desc)
	if w.seen[v] {
		return nil
	}
	w.seen[v] = true
	p, there, err := w.documentBlob(ctx, desc)
	if err != nil || !there {
		return err
	}
	if desc.Digest != w.target.Digest {
		p.Reference = ""
	}
	w.sources.add(p)
	if images.IsManifestType(desc.MediaType) {
		return w.manifest(ctx, desc)
	}
	children, err := images.Children(ctx, documents.Bounded{Provider: w.contents.contents}, desc)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := w.document(ctx, child); err != nil {
			return err
		}
	}
	return nil
}

// manifest visits the config and the layers.
func (w *imageWalk) manifest(ctx context.Context, desc ocispec.Descriptor) error {
	data, err := content.ReadBlob(ctx, documents.Bounded{Provider: w.contents.contents}, desc)
	if err != nil {
		return err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(data, &manifest); err != nil {
		return fmt.Errorf("manifest %s: %w", desc.Digest, err)
	}
	p, there, err := w.documentBlob(ctx, manifest.Config)
	if err != nil {
		return err
	}
	if there {
		p.Reference = ""
		w.sources.add(p)
	}
	for _, layer := range manifest.Layers {
		p, there, err := w.blob(ctx, layer)
		if err != nil {
			return err
		}
		if there {
			p.Reference = ""
			w.sources.add(p)
		}
	}
	return w.chain(ctx, manifest, foreign(desc))
}

// documentBlob is blob for a document. Others may have delivered the same before its own source
// has, and be named in its labels.
func (w *imageWalk) documentBlob(ctx context.Context, desc ocispec.Descriptor) (p provenance.Provenance, there bool, err error) {
	p, there, err = w.blob(ctx, desc)
	if _, now := w.delivered.of(desc.Digest); there && !now && w.delivered.earlier.Known() {
		p = w.delivered.earlier
	}
	return p, there, err
}

// blob returns where content came from, and whether it is there.
func (w *imageWalk) blob(ctx context.Context, desc ocispec.Descriptor) (p provenance.Provenance, there bool, err error) {
	if p, there = w.delivered.of(desc.Digest); there {
		return p, true, nil
	}
	p, err = w.contents.written(ctx, desc.Digest)
	if errdefs.IsNotFound(err) {
		return provenance.Provenance{}, false, nil
	}
	return p, err == nil, err
}
