// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	// maxIndexes bounds the indexes in each other, down to the manifest that runs.
	maxIndexes = 8
	// maxWay bounds the documents of a Way together, in bytes.
	maxWay = 8 << 20
	// maxReferences is how many names containerd follows in one image, again and again the same
	// included. A pull does not count the layers, and CRI does when it adds up the image's size.
	maxReferences = 10_000
)

// Way bounds what containerd reads of an image: the documents from the target to the manifest that
// runs, and its config. CRI reads all of them, several times for each name of the image and at each
// start, and answers nobody meanwhile. The zero value is ready, and safe for concurrent use.
type Way struct {
	mu                  sync.Mutex
	indexes, references int // without that of the target
	bytes               int64
}

// Read adds a document of that size, which is to be read. The error is ErrInvalid once there is too
// much.
func (w *Way) Read(desc ocispec.Descriptor, size int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes += size
	if images.IsIndexType(desc.MediaType) {
		w.indexes++
	}
	switch {
	case w.indexes > maxIndexes:
		return invalid{fmt.Errorf("%s is an index within %d others: more are not allowed", desc.Digest, maxIndexes)}
	case w.bytes > maxWay:
		return invalid{fmt.Errorf("the indexes, the manifest and the config have more than %d bytes together, which are not allowed", maxWay)}
	}
	return nil
}

// Follow adds what a document names, and is followed. The error is ErrInvalid once there is too much.
func (w *Way) Follow(desc ocispec.Descriptor, children []ocispec.Descriptor) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if images.IsIndexType(desc.MediaType) {
		w.references++ // the one that runs
	} else {
		w.references += len(children)
	}
	if w.references >= maxReferences {
		return invalid{fmt.Errorf("%s brings the image to more than %d names of its parts, which are not allowed", desc.Digest, maxReferences)}
	}
	return nil
}

// CheckImage returns an error, which is ErrInvalid, for an image that CRI cannot read, or reads in
// another way than runs: it would show no record of it; or whose config, which is an image's whatever its manifest calls
// it, and whoever has brought it to the node, check refuses; a nil one refuses none. Of what runs and is not on the node the
// error is errdefs.ErrNotFound.
func CheckImage(ctx context.Context, contents content.InfoReaderProvider, target ocispec.Descriptor, check func(config []byte) error) error {
	if err := checkWay(ctx, contents, target); err != nil {
		return err
	}
	manifest, err := images.Manifest(ctx, Bounded{contents}, target, platforms.Default())
	if err != nil {
		return fmt.Errorf("manifest of %s: %w", target.Digest, err)
	}
	config := manifest.Config
	data, err := content.ReadBlob(ctx, Bounded{contents}, config)
	if err != nil {
		return fmt.Errorf("config %s: %w", config.Digest, err)
	}
	config.MediaType = ocispec.MediaTypeImageConfig
	if err := cmp.Or(checkReads(ctx, config, data), checkLayers(manifest, data)); err != nil {
		return In(config.Digest, err)
	}
	if check != nil {
		if err := check(data); err != nil {
			return In(config.Digest, invalid{fmt.Errorf("%s: %w", config.Digest, err)})
		}
	}
	return nil
}

// checkLayers returns an error, which is ErrInvalid, for a config of an image that has other layers than its manifest.
// containerd takes a manifest without any for unpacked. CRI would go on to mount by it, as a volume, whatever
// image has that config.
func checkLayers(manifest ocispec.Manifest, config []byte) error {
	var image ocispec.Image
	if err := json.Unmarshal(config, &image); err != nil {
		return invalid{err}
	}
	if diffIDs, layers := len(image.RootFS.DiffIDs), len(Layers(manifest)); diffIDs > 0 && diffIDs != layers {
		return invalid{fmt.Errorf("the manifest has %d layers, and the config %d", layers, diffIDs)}
	}
	return nil
}

// checkWay checks the documents from the target to the config of what runs, as they are on the node.
func checkWay(ctx context.Context, contents content.InfoReaderProvider, target ocispec.Descriptor) error {
	var way Way
	for desc := target; ; {
		size, err := Bounded{contents}.CheckUsed(ctx, desc)
		if err := cmp.Or(err, way.Read(desc, size), sameSize(desc, size)); err != nil {
			return In(desc.Digest, err)
		}
		children, err := images.Children(ctx, Bounded{contents}, desc)
		if err != nil {
			return fmt.Errorf("read %s: %w", desc.Digest, err)
		}
		if err := cmp.Or(CheckChildren(ctx, desc, children), way.Follow(desc, children)); err != nil {
			return In(desc.Digest, err)
		}
		if images.IsManifestType(desc.MediaType) { // the first is its config, the next on the way
			if err := checkSizes(ctx, contents, children[min(1, len(children)):]); err != nil {
				return In(desc.Digest, err)
			}
		}
		switch {
		case images.IsIndexType(desc.MediaType):
			if children, err = forNode(listed(children))(ctx, desc); err != nil {
				return fmt.Errorf("index %s: %w", desc.Digest, err)
			}
		case len(children) == 0: // a config, or nothing that CRI knows
			return nil
		}
		desc = children[0]
	}
}

// sameSize returns an error, which is ErrInvalid, for a document that is said to be of another size than it
// has; 0 for one that is not here. Nobody fetches, and compares, what is there by another tag.
func sameSize(desc ocispec.Descriptor, size int64) error {
	if size > 0 && size != desc.Size {
		return invalid{fmt.Errorf("%s is said to have %d bytes, which it has not", desc.Digest, desc.Size)}
	}
	return nil
}

// checkSizes returns an error, which is ErrInvalid, for a layer of another size than a manifest says,
// where it is on the node: a pull compares what it fetches alone. It does not look at files: one that a
// crash has cut is not missed where its layer is unpacked. Neither the error nor that there is one tells
// anything of a document that somebody calls a layer: see OnlyLayers.
func checkSizes(ctx context.Context, contents content.InfoReaderProvider, layers []ocispec.Descriptor) error {
	for _, desc := range layers {
		info, err := contents.Info(ctx, desc.Digest)
		switch {
		case errdefs.IsNotFound(err):
			continue
		case err != nil:
			return fmt.Errorf("look for %s: %w", desc.Digest, err)
		case info.Size == desc.Size:
			continue
		}
		r, err := OnlyLayers{contents}.ReaderAt(ctx, ocispec.Descriptor{Digest: desc.Digest})
		switch {
		case errdefs.IsNotFound(err):
			continue
		case err != nil:
			return fmt.Errorf("open %s: %w", desc.Digest, err)
		}
		_ = r.Close()
		return sameSize(desc, info.Size)
	}
	return nil
}
