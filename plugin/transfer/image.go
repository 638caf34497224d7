// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// imageSources is where an image came from that a pull has brought.
type imageSources struct {
	// parts are its layers, whoever brought them, and what the pull has delivered.
	parts sources
	// there are its other documents. They are the same by each name of the image, and each name has had them
	// delivered by hosts of its own.
	there sources
	// fetched are the hosts of what the pull has fetched, also where that is no part of what runs here.
	fetched provenance.Provenance
	// borrowed says that it runs what is not known to be unpacked from its own layers: a config can name any chain that is on the node.
	borrowed bool
	// asks are the hosts that the pull may ask, in their order, in which they are named before others.
	asks []string
}

// sources is where some parts of an image came from.
type sources struct {
	// from has the reference as the host of the manifest or index knows it, if that is one of them, and
	// all hosts that served anything of them, in the order in which the content is listed.
	from provenance.Provenance
	// unknown says that some came from nobody knows where.
	unknown bool
}

// add adds the hosts of a part of the image.
func (s *sources) add(p provenance.Provenance) {
	s.unknown = s.unknown || !p.Known()
	s.from = s.from.Add(p)
}

// to returns what a record is to say that has said this before, or whose image another has told of: documents which
// were there already came from those. Of a record that has said nothing, their labels tell.
func (s imageSources) to(before store.State) sources {
	docs := s.there
	if earlier := sourcesOf(before); earlier.Known() && (docs.unknown || docs.from.Known()) {
		docs.from, docs.unknown = earlier, docs.unknown && before.UnknownSources
		docs.from.More = max(s.there.from.More, earlier.More-s.missingOf(earlier))
	}
	return sources{from: docs.from.Add(s.parts.from).InOrder(s.asks), unknown: docs.unknown || s.parts.unknown}
}

// missingOf counts the hosts of what was there already that a list of all hosts had no room for.
func (s imageSources) missingOf(all provenance.Provenance) (n int) {
	for _, host := range s.parts.from.Hosts {
		if !slices.Contains(all.Hosts, host) && !slices.Contains(s.fetched.Hosts, host) {
			n++
		}
	}
	return n
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
	writes       bool      // the provenance of layers to their snapshots, where what tells of it is not the image's own
	keep         bool      // writes that of each layer
	looksOn      bool      // at documents alone, by whomever they were fetched
	newest       time.Time // when one came of those of which nobody knows from where, where it looks on
	target       ocispec.Descriptor
	imageSources
	seen     map[visit]bool
	unpacked map[digest.Digest][]unpackedContent // by diff ID; nil = not listed yet
}

// visit is a document as a descriptor calls it: what is below it depends on that. Of an index,
// containerd runs one manifest alone.
type visit struct {
	digest                digest.Digest
	manifest, index, runs bool
}

func visitOf(desc ocispec.Descriptor, runs bool) visit {
	return visit{desc.Digest, images.IsManifestType(desc.MediaType), images.IsIndexType(desc.MediaType), runs}
}

// documents are the manifests, indexes and configs among the content.
func (s *contentSources) documents() content.Provider { return documents.Bounded{Provider: s.contents} }

// complete returns an error unless the documents are on the node that say what a container of
// the image runs, and CRI can read them, as those: records of an image that it cannot read would
// stay, since it shows them to nobody who could remove them. A pull fetches what is for the very
// platform of the node, and containerd runs what is for another that the node can run, or has been
// left out in another way, as well: it would read it from the data of the descriptor, with which
// come no sources and no bounds.
//
// The config must have no secret of the source where CRI tells of it. What is fetched as a config has none, and this one
// may have come as anything else, also by another pull.
func (s *contentSources) complete(ctx context.Context, target ocispec.Descriptor, from any) error {
	var check func(config []byte) error
	if source, ok := from.(ConfigChecker); ok {
		check = source.CheckConfig
	}
	err := documents.CheckImage(ctx, s.contents, target, check)
	if err == nil || errors.Is(err, documents.ErrInvalid) {
		return err
	}
	return fmt.Errorf("what runs of %s is not on the node: %w", target.Digest, err)
}

// ofImage returns where an image came from that is, or is to be, unpacked by
// the snapshotters, to a pull that has fetched what is delivered.
func (s *contentSources) ofImage(ctx context.Context, target ocispec.Descriptor, delivered *deliveries, unpackedBy ...snapshots.Snapshotter) (imageSources, error) {
	w := &imageWalk{
		contents: s, delivered: delivered, snapshotters: unpackedBy, writes: true, keep: s.keepWithSnapshots,
		target: target, seen: map[visit]bool{},
	}
	err := w.document(ctx, target, true)
	w.fetched = w.fetched.Add(delivered.hosts())
	w.fetched.Reference = ""
	if err != nil {
		return imageSources{parts: sources{unknown: true}, fetched: w.fetched}, err
	}
	return w.imageSources, nil
}

// document visits an index or a manifest, and all below it, once: nested indexes
// can name each other so often that there are more ways to a document than anybody
// could walk. A name as something that has nothing below it is no visit to a
// manifest. What never runs here, such as that of another platform, counts where this pull has
// fetched it: others can have brought it for an image of theirs. What runs and is not there may
// come from anywhere.
func (w *imageWalk) document(ctx context.Context, desc ocispec.Descriptor, runs bool) error {
	v := visitOf(desc, runs)
	if w.seen[v] {
		return nil
	}
	w.seen[v] = true
	if _, now := w.delivered.of(desc.Digest); !runs && !now {
		return nil
	}
	there, err := w.addDocument(ctx, desc, runs)
	if err != nil || !there {
		return err
	}
	if images.IsManifestType(desc.MediaType) {
		return w.manifest(ctx, desc, runs)
	}
	children, err := images.Children(ctx, w.contents.documents(), desc)
	if err != nil || len(children) == 0 {
		return err
	}
	ours, err := documents.ForNode(w.contents.documents())(ctx, desc)
	if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	for _, child := range children {
		isOurs := slices.ContainsFunc(ours, func(our ocispec.Descriptor) bool {
			return our.Digest == child.Digest && our.MediaType == child.MediaType
		})
		if err := w.document(ctx, child, runs && isOurs); err != nil {
			return err
		}
	}
	return nil
}

// manifest visits the config and the layers.
func (w *imageWalk) manifest(ctx context.Context, desc ocispec.Descriptor, runs bool) error {
	data, err := content.ReadBlob(ctx, w.contents.documents(), desc)
	if err != nil {
		return err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(data, &manifest); err != nil {
		return fmt.Errorf("manifest %s: %w", desc.Digest, err)
	}
	if _, err := w.addDocument(ctx, manifest.Config, runs); err != nil {
		return err
	}
	if w.looksOn {
		return nil
	}
	for _, layer := range manifest.Layers {
		p, there, err := w.layer(ctx, layer)
		if err != nil {
			return err
		}
		if there {
			p.Reference = ""
			w.parts.add(p)
		}
	}
	return w.chain(ctx, manifest, runs)
}

// lookAt returns where content came from, which others may be fetching.
func (w *imageWalk) lookAt(ctx context.Context, d digest.Digest) (provenance.Provenance, error) {
	info, err := w.contents.contents.Info(ctx, d)
	if err != nil {
		return provenance.Provenance{}, err
	}
	p := decodeLabels(info.Labels)
	if !p.Known() && info.CreatedAt.After(w.newest) {
		w.newest = info.CreatedAt
	}
	return p, nil
}

// layer is blob for one of a manifest's layers. A document that it calls one, and the pull has not fetched, is as
// one that is not there: what is unpacked in its place has come from elsewhere, and is of another link.
func (w *imageWalk) layer(ctx context.Context, desc ocispec.Descriptor) (p provenance.Provenance, there bool, err error) {
	p, there, err = w.blob(ctx, desc)
	if _, now := w.delivered.of(desc.Digest); !there || err != nil || now || !documents.IsLayer(desc) {
		return p, there, err
	}
	r, err := w.contents.contents.ReaderAt(ctx, ocispec.Descriptor{Digest: desc.Digest})
	if errdefs.IsNotFound(err) { // its file is lost
		return p, true, nil
	}
	if err != nil {
		return provenance.Provenance{}, false, err
	}
	defer r.Close()
	return p, !documents.MayBe(r), nil
}

// addDocument adds the sources of a document, and reports whether it is there. Others may have
// delivered the same before its own source has, and be named in its labels.
func (w *imageWalk) addDocument(ctx context.Context, desc ocispec.Descriptor, runs bool) (there bool, err error) {
	p, there, err := w.blob(ctx, desc)
	if err != nil {
		return false, err
	}
	if !there {
		w.parts.unknown = w.parts.unknown || runs
		return false, nil
	}
	into := &w.there
	if own, delivered := w.delivered.document(desc.Digest); delivered {
		into, p, w.fetched = &w.parts, own, w.fetched.Add(own)
	}
	if desc.Digest != w.target.Digest {
		p.Reference = ""
	}
	into.add(p)
	return true, nil
}

// blob returns where content came from, and whether it is there.
func (w *imageWalk) blob(ctx context.Context, desc ocispec.Descriptor) (p provenance.Provenance, there bool, err error) {
	if p, there = w.delivered.of(desc.Digest); there {
		return p, true, nil
	}
	if w.looksOn {
		p, err = w.lookAt(ctx, desc.Digest)
	} else {
		p, err = w.contents.written(ctx, desc.Digest)
	}
	if errdefs.IsNotFound(err) {
		return provenance.Provenance{}, false, nil
	}
	return p, err == nil, err
}
