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
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
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
// in the snapshots of some snapshotters. A layer's content may be gone when its
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
}

// visit is a document as a descriptor calls it: what is below it depends on that.
type visit struct {
	digest          digest.Digest
	manifest, index bool
}

func visitOf(desc ocispec.Descriptor) visit {
	return visit{desc.Digest, images.IsManifestType(desc.MediaType), images.IsIndexType(desc.MediaType)}
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
	p, there, err := w.blob(ctx, desc)
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
	p, there, err := w.blob(ctx, manifest.Config)
	if err != nil {
		return err
	}
	if there {
		p.Reference = ""
		w.sources.add(p)
	}
	// The config of something else than an image names no layers.
	diffIDs, err := images.RootFS(ctx, documents.Bounded{Provider: w.contents.contents}, manifest.Config)
	if err != nil || len(diffIDs) != len(manifest.Layers) {
		diffIDs = nil
	}
	for i, layer := range manifest.Layers {
		var chainID string
		if diffIDs != nil {
			chainID = identity.ChainID(diffIDs[:i+1]).String()
		}
		if err := w.layer(ctx, layer, chainID); err != nil {
			return err
		}
	}
	return nil
}

// layer visits a layer's content and its snapshots.
func (w *imageWalk) layer(ctx context.Context, desc ocispec.Descriptor, chainID string) error {
	p, there, err := w.blob(ctx, desc)
	if err != nil {
		return err
	}
	p.Reference = ""
	if there {
		w.sources.add(p)
	}
	if chainID == "" {
		return nil
	}
	for _, sn := range w.snapshotters {
		info, err := sn.Stat(ctx, chainID)
		switch {
		case errdefs.IsNotFound(err) || err == nil && info.Kind != snapshots.KindCommitted:
			continue
		case err != nil:
			return fmt.Errorf("snapshot %s: %w", chainID, err)
		}
		w.sources.add(w.snapshot(ctx, sn, info, desc, p))
	}
	return nil
}

// snapshot returns where the layer in a snapshot came from. It writes it to the
// snapshot where only the content says it so far: the snapshot is made of that
// content if it is the younger of the two.
func (w *imageWalk) snapshot(ctx context.Context, sn snapshots.Snapshotter, snapshot snapshots.Info, layer ocispec.Descriptor, p provenance.Provenance) provenance.Provenance {
	if written := decodeLabels(snapshot.Labels); written.Known() || !p.Known() {
		return written
	}
	info, err := w.contents.contents.Info(ctx, layer.Digest)
	if err != nil || info.CreatedAt.After(snapshot.Created) {
		return provenance.Provenance{}
	}
	if !w.contents.keepWithSnapshots {
		return p
	}
	labels, paths := encodeLabels(p)
	if _, err := sn.Update(ctx, snapshots.Info{Name: snapshot.Name, Labels: labels}, paths...); err != nil {
		warnNotRecorded(ctx, layer.Digest, err)
	}
	return p
}

// blob returns where content came from, and whether it is there.
func (w *imageWalk) blob(ctx context.Context, desc ocispec.Descriptor) (p provenance.Provenance, there bool, err error) {
	if p, there = w.delivered.of(desc.Digest); there {
		return p, true, nil
	}
	p, err = w.contents.persist(ctx, desc.Digest)
	switch {
	case errdefs.IsNotFound(err):
		return provenance.Provenance{}, false, nil
	case err != nil && !p.Known():
		return p, false, err
	case err != nil:
		warnNotRecorded(ctx, desc.Digest, err)
	}
	return p, true, nil
}
