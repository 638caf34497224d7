// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package content answers questions about the content of images that are on the
// node: whether a container can be made of an image, whether a source serves the
// same bytes, and whether a source possesses it at all.
package content

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
)

// DB is the part of containerd's metadata database that holds content.
type DB interface {
	ContentStore() content.Store
	// Snapshotter returns nil for a name that is not configured.
	Snapshotter(name string) snapshots.Snapshotter
}

// Images answers questions about the content of images, in the namespace of the
// context. It changes nothing. It is safe for concurrent use.
type Images struct {
	// MayBeRemote reports whether a snapshotter may make remote snapshots: on those of others the mark of such is not
	// the snapshotter's own. It is set before the first use. Default: nil, each may.
	MayBeRemote func(snapshotter string) bool

	db       DB
	patience time.Duration // with a transfer of which no byte comes; 0 = no bound
	layouts  *lru.Cache[layoutKey, layout]
	remotes  *lru.Cache[remoteKey, bool]
}

// New returns Images over containerd's metadata database. A transfer ends when
// no byte of it comes for as long as the patience lasts; 0 is without a bound.
func New(db DB, patience time.Duration) *Images {
	layouts, err := lru.New[layoutKey, layout](maxLayouts)
	if err != nil {
		panic(err) // only a size that is not positive is an error
	}
	remotes, err := lru.New[remoteKey, bool](maxLayouts)
	if err != nil {
		panic(err)
	}
	return &Images{db: db, patience: patience, layouts: layouts, remotes: remotes}
}

// documents are the manifests, indexes and configs among the content.
func (i *Images) documents() content.Provider {
	return documents.Bounded{Provider: i.db.ContentStore()}
}

// Image is an image that a container can be made of.
type Image struct {
	// ID is CRI's: the digest of the config.
	ID digest.Digest
	// Manifest is that of the node's platform: the target, or one in it.
	Manifest digest.Digest
	// Size is that of the target in bytes, of which its record may have another.
	Size int64
	// Unpacked says that the snapshot is there, to stay. If not, the layers are, from
	// which it can be made.
	Unpacked bool
	// Remote says that bytes of a layer are elsewhere: its snapshot is a remote one, for
	// which the snapshotter fetches what is read, when it is read.
	Remote bool
}

// Runnable returns the image of target if a container can be made of it with
// that snapshotter: its manifest and config can be read, and its top snapshot
// is there or all of its layers are, to stay. Otherwise the error says what is
// missing.
func (i *Images) Runnable(ctx context.Context, target ocispec.Descriptor, snapshotter string) (Image, error) {
	cs := i.db.ContentStore()
	info, err := cs.Info(ctx, target.Digest)
	if err != nil {
		return Image{}, fmt.Errorf("%s: %w", target.Digest, err)
	}
	target.Size = info.Size // of the target's, records have what some host has claimed
	l, err := i.layout(ctx, i.documents(), target)
	if err != nil {
		return Image{}, err
	}
	documents := append([]ocispec.Descriptor{target}, l.documents...)
	for _, doc := range documents {
		if err := readable(ctx, cs, doc); err != nil {
			return Image{}, fmt.Errorf("%s of %s: %w", doc.Digest, target.Digest, err)
		}
	}
	sn := i.db.Snapshotter(snapshotter)
	if sn == nil {
		return Image{}, fmt.Errorf("snapshotter %q: %w", snapshotter, errdefs.ErrNotFound)
	}
	image := Image{ID: l.imageID, Manifest: l.manifest(target).Digest, Size: info.Size, Unpacked: true}
	if l.chainID == "" {
		return image, nil // no layers: there is nothing to unpack
	}
	kept, err := references(ctx, cs, documents)
	if err != nil {
		return Image{}, err
	}
	snapshot, err := sn.Stat(ctx, l.chainID)
	if err != nil && !errdefs.IsNotFound(err) {
		return Image{}, fmt.Errorf("snapshot of %s: %w", target.Digest, err)
	}
	if err == nil && snapshot.Kind == snapshots.KindCommitted && kept[snapshotter+"/"+l.chainID] {
		image.Remote, err = i.remote(ctx, sn, snapshotter, snapshot)
		return image, err
	}
	manifest, err := images.Manifest(ctx, i.documents(), target, platforms.Default())
	if err != nil {
		return Image{}, fmt.Errorf("manifest of %s: %w", target.Digest, err)
	}
	for _, layer := range manifest.Layers {
		if !kept[layer.Digest.String()] {
			return Image{}, fmt.Errorf("no snapshot of its own in %q, and the next garbage collection may remove layer %s: %w", snapshotter, layer.Digest, errdefs.ErrNotFound)
		}
		if err := readable(ctx, layers(cs, layer), layer); err != nil {
			return Image{}, fmt.Errorf("no snapshot of its own in %q, and layer %s: %w", snapshotter, layer.Digest, err)
		}
	}
	image.Unpacked = false
	return image, nil
}

// layers is where that of a manifest's layers is looked for: a document is none that containerd unpacks.
func layers(contents content.Provider, desc ocispec.Descriptor) content.Provider {
	if documents.IsLayer(desc) {
		return documents.OnlyLayers{Provider: contents}
	}
	return contents
}

// The prefixes of labels by which content keeps other content, and snapshots.
const (
	contentReference  = "containerd.io/gc.ref.content"
	snapshotReference = "containerd.io/gc.ref.snapshot."
)

// references returns what the documents keep from containerd's garbage
// collection: digests of content, and "snapshotter/name" of snapshots. Layers are not among it where CRI
// discards them once they are unpacked, nor is a snapshot that only another image was unpacked to, or a pull
// that has failed: they can be gone the moment after they were seen.
func references(ctx context.Context, cs content.Store, documents []ocispec.Descriptor) (map[string]bool, error) {
	kept := map[string]bool{}
	for _, doc := range documents {
		info, err := cs.Info(ctx, doc.Digest)
		if err != nil {
			return nil, fmt.Errorf("references of %s: %w", doc.Digest, err)
		}
		for label, value := range info.Labels {
			if strings.HasPrefix(label, contentReference) {
				kept[value] = true
			}
			if of, ok := strings.CutPrefix(label, snapshotReference); ok {
				snapshotter, _, _ := strings.Cut(of, "/") // more may follow, to tell labels apart
				kept[snapshotter+"/"+value] = true
			}
		}
	}
	return kept, nil
}

// readable opens the blob, because the database alone does not know whether
// the file is still there.
func readable(ctx context.Context, provider content.Provider, desc ocispec.Descriptor) error {
	r, err := provider.ReaderAt(ctx, desc)
	if err != nil {
		return err
	}
	defer r.Close()
	if r.Size() != desc.Size {
		return fmt.Errorf("has not the %d bytes that it is said to have: %w", desc.Size, errdefs.ErrFailedPrecondition)
	}
	return nil
}
