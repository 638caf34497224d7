// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package documents bounds the manifests, indexes and configs that are read as a whole, refuses
// those that name things by what is no digest, and reads all of them from the content store.
package documents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxObjects bounds the objects and the elements of arrays of a document. containerd takes
// 10,000 descriptors, which have a platform and annotations; but it counts them when it has
// read them all, and an element that is none has 2 bytes there and some hundred in memory.
const maxObjects = 4 * 10_000

// maxMembers bounds the members of the objects of a document: 16 for each of as many descriptors,
// with those of their platform and annotations. Each takes time to be read, and memory.
const maxMembers = 16 * 10_000

// ErrInvalid marks errors about what a registry says: it is at fault, and not the node.
var ErrInvalid = errors.New("it breaks the specification, or a bound of containerd's")

// Error is an error about what a document says, or is said to be.
type Error struct {
	Document digest.Digest // that says it
	err      error
}

// In returns an error about a document.
func In(document digest.Digest, err error) error { return &Error{Document: document, err: err} }

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// invalid is an error that is ErrInvalid, with a text that does not say so.
type invalid struct{ error }

func (e invalid) Unwrap() []error { return []error{e.error, ErrInvalid} }

// Bounded is content of which nothing can be read that is too large for a document, or
// has too many objects, whatever names it as one: a pull sees what it fetches, and of an
// index that may be less than what is here.
//
// Manifests and indexes are read without the data that their descriptors have with them:
// containerd takes that for the content, which then need not be here, has no source, and was
// not looked at.
type Bounded struct{ content.Provider }

// ReaderAt implements content.Provider.
func (b Bounded) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	r, err := counted(b).ReaderAt(ctx, desc)
	if err != nil || !namesOthers(desc) {
		return r, err
	}
	return withoutData(r)
}

// WithInfo is Bounded with what the store knows of the content.
func WithInfo(store content.InfoReaderProvider) content.InfoReaderProvider {
	return struct {
		content.InfoProvider
		content.Provider
	}{store, Bounded{store}}
}

// counted is Bounded with the data.
type counted struct{ content.Provider }

// ReaderAt implements content.Provider.
func (c counted) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	r, err := c.Provider.ReaderAt(ctx, desc)
	if err != nil {
		return nil, err
	}
	if err := check(desc.Digest, r); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Check returns the size of a document, and an error where it cannot be read, or Validate refuses
// it; 0 and nil where there is none.
func (b Bounded) Check(ctx context.Context, desc ocispec.Descriptor) (size int64, err error) {
	data, err := b.checked(ctx, desc)
	return int64(len(data)), err
}

// CheckUsed is Check of a document that the image is made of: containerd and CRI can read it as that.
func (b Bounded) CheckUsed(ctx context.Context, desc ocispec.Descriptor) (size int64, err error) {
	data, err := b.checked(ctx, desc)
	if err == nil && data != nil {
		err = checkReads(ctx, desc, data)
	}
	return int64(len(data)), err
}

// checked is Check that returns the document; nil where there is none.
func (b Bounded) checked(ctx context.Context, desc ocispec.Descriptor) ([]byte, error) {
	desc.Data = nil // which is not what is here
	data, err := content.ReadBlob(ctx, counted(b), desc)
	switch {
	case errdefs.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := validateFields(desc.MediaType, data); err != nil {
		return nil, invalid{fmt.Errorf("%s: %w", desc.Digest, err)}
	}
	return data, nil
}

// check returns an error for a document that takes too much memory.
func check(d digest.Digest, r content.ReaderAt) error {
	if err := Check(d, r.Size()); err != nil {
		return err
	}
	var c counter
	buf := make([]byte, min(r.Size(), 32<<10))
	for all := io.NewSectionReader(r, 0, r.Size()); ; {
		n, err := all.Read(buf)
		c.add(buf[:n])
		switch {
		case c.err() != nil:
			return fmt.Errorf("%s: %w", d, c.err())
		case errors.Is(err, io.EOF) || n == 0 && err == nil:
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", d, err)
		}
	}
}

// Check returns an error, which is ErrInvalid, for a document of more than
// docker.MaxManifestSize bytes.
func Check(d digest.Digest, size int64) error {
	if size > docker.MaxManifestSize {
		return invalid{fmt.Errorf("%s is a document of %d bytes: more than %d are not allowed", d, size, docker.MaxManifestSize)}
	}
	return nil
}

// ForNode lists what a document names, as the provider has that: of an index only what containerd
// takes of it on this node, which may be another index. The error is errdefs.ErrNotFound for an
// index that has nothing for it.
func ForNode(contents content.Provider) images.HandlerFunc {
	return forNode(images.ChildrenHandler(contents))
}

func forNode(children images.HandlerFunc) images.HandlerFunc {
	p := platforms.Default()
	return images.LimitManifests(images.FilterPlatforms(children, p), p, 1)
}

// DiffIDs returns the digests of the layers that the config of an image has, unpacked: none
// for the config of something else. One that is no digest is an error.
func DiffIDs(ctx context.Context, contents content.Provider, config ocispec.Descriptor) ([]digest.Digest, error) {
	diffIDs, err := images.RootFS(ctx, Bounded{contents}, config)
	if err != nil {
		return nil, fmt.Errorf("config %s: %w", config.Digest, err)
	}
	if err := checkDiffIDs(diffIDs); err != nil {
		return nil, fmt.Errorf("config %s: %w", config.Digest, err)
	}
	return diffIDs, nil
}

// Layers returns those of a manifest's layers that containerd unpacks, in their order: as many as
// its config has diff IDs. It fetches the others, such as a signature, and leaves them alone.
func Layers(manifest ocispec.Manifest) []ocispec.Descriptor {
	return slices.DeleteFunc(slices.Clone(manifest.Layers), func(desc ocispec.Descriptor) bool { return !IsLayer(desc) })
}
