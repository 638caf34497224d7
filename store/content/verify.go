// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/pkg/archive/compression"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
)

// VerifyContent fetches every byte of the image of target, for this platform,
// and returns nil when all of it has the digests of the image that is here, and the
// layers unpack to what its config says: snapshots are made of that, by whatever layers.
// What is none by its type is not unpacked, and has its digest alone to have. Nothing is
// stored. The error is errdefs.ErrFailedPrecondition for bytes that differ.
func (i *Images) VerifyContent(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher) error {
	c := &comparison{images: i, from: from, verified: map[mention]bool{}}
	children := documents.ForNode(i.documents())
	verify := func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		if err := c.blob(ctx, desc, unpacked{}); err != nil || !images.IsManifestType(desc.MediaType) {
			return nil, err
		}
		if err := c.manifest(ctx, desc); err != nil {
			return nil, err
		}
		return nil, images.ErrStopHandler // its children are verified
	}
	if err := images.Walk(ctx, images.Handlers(images.HandlerFunc(verify), children), target); err != nil {
		return fmt.Errorf("take %s again: %w", target.Digest, err)
	}
	return nil
}

// comparison fetches content once, however often a manifest names it as the same: a registry can
// name one blob tens of thousands of times.
type comparison struct {
	images   *Images
	from     transfer.Fetcher
	verified map[mention]bool
}

// mention is all that is verified of content where a document names it. A size is no part of it:
// what has the digest has one size, and documents can claim thousands.
type mention struct {
	digest digest.Digest
	unpacked
}

// unpacked is what a layer must unpack to; zero for what is no layer.
type unpacked struct {
	layer  bool
	diffID digest.Digest
}

// manifest verifies what a manifest names.
func (c *comparison) manifest(ctx context.Context, desc ocispec.Descriptor) error {
	contents := c.images.documents()
	manifest, err := images.Manifest(ctx, contents, desc, nil)
	if err != nil {
		return err
	}
	if err := c.blob(ctx, manifest.Config, unpacked{}); err != nil {
		return err
	}
	diffIDs, err := images.RootFS(ctx, contents, manifest.Config)
	if err != nil {
		return err
	}
	if layers := documents.Layers(manifest); len(diffIDs) != len(layers) {
		return fmt.Errorf("%d layers, of which the config has %d: %w", len(layers), len(diffIDs), errdefs.ErrFailedPrecondition)
	}
	for n, layer := range manifest.Layers {
		var to unpacked
		if documents.IsLayer(layer) {
			to = unpacked{layer: true, diffID: diffIDs[0]}
			diffIDs = diffIDs[1:]
		}
		if err := c.blob(ctx, layer, to); err != nil {
			return fmt.Errorf("layer %d: %w", n, err)
		}
	}
	return nil
}

// blob verifies content, and what it unpacks to.
func (c *comparison) blob(ctx context.Context, desc ocispec.Descriptor, to unpacked) error {
	m := mention{desc.Digest, to}
	if c.verified[m] {
		return nil
	}
	var unpacks func(io.Reader) error
	if to.layer {
		unpacks = func(r io.Reader) error { return verifyUnpacked(ctx, r, to.diffID) }
	}
	if err := c.images.verifyBlob(ctx, desc, c.from, unpacks); err != nil {
		return err
	}
	c.verified[m] = true
	return nil
}

// verifyUnpacked returns nil if a layer unpacks to what has that digest. It ends with the context, however much the
// layer unpacks to.
func verifyUnpacked(ctx context.Context, layer io.Reader, diffID digest.Digest) error {
	if err := validate(diffID); err != nil {
		return err
	}
	r, err := compression.DecompressStream(layer)
	if err != nil {
		return fmt.Errorf("unpack it: %w: %w", err, errdefs.ErrFailedPrecondition)
	}
	defer r.Close()
	verifier := diffID.Verifier()
	_, err = io.Copy(endingWriter{verifier, ctx}, r)
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	if err != nil {
		return fmt.Errorf("unpack it: %w: %w", err, errdefs.ErrFailedPrecondition)
	}
	if !verifier.Verified() {
		return fmt.Errorf("it does not unpack to %s, which the config has: %w", diffID, errdefs.ErrFailedPrecondition)
	}
	return nil
}

// endingWriter takes nothing more once a context has ended.
type endingWriter struct {
	io.Writer
	ctx context.Context
}

func (w endingWriter) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.Writer.Write(b)
}

// validate refuses digests that are none. containerd reads that of no layer that it
// does not fetch, because its snapshot is there.
func validate(d digest.Digest) error {
	if err := documents.CheckDigest("the digest", d); err != nil {
		return fmt.Errorf("%w: %w", err, errdefs.ErrFailedPrecondition)
	}
	return nil
}

// VerifyManifest returns nil if the registry behind the fetcher delivers the manifest of
// target for this platform, and before it each index on the way there: who is refused one of them
// learns nothing of what it names, and nor does the registry. delivered reports whether
// a document has come from there already; it is not fetched again then. Nothing is stored.
// The error is errdefs.ErrFailedPrecondition for bytes that differ.
func (i *Images) VerifyManifest(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher, delivered func(digest.Digest) bool) error {
	l, err := i.layout(ctx, i.documents(), target)
	if err != nil {
		return err
	}
	for _, desc := range l.way(target) {
		if delivered(desc.Digest) {
			continue
		}
		if err := i.verifyBlob(ctx, desc, from, nil); err != nil {
			return fmt.Errorf("take the manifest of %s again: %w", target.Digest, err)
		}
	}
	return nil
}

// verifyBlob takes content from the registry, never from the urls of its
// descriptor: those prove nothing about a registry. It reads no more than the
// descriptor says there is, and ends, as a pull does, when nothing comes any more.
// The error of use, which may read it, too, counts for content that has its digest;
// nil for no use.
func (i *Images) verifyBlob(ctx context.Context, desc ocispec.Descriptor, from transfer.Fetcher, use func(io.Reader) error) error {
	if err := validate(desc.Digest); err != nil {
		return err
	}
	desc.URLs = nil
	ctx, progress := watch(ctx, i.patience, from)
	defer progress.stop()
	r, err := from.Fetch(ctx, desc)
	if err != nil {
		return progress.judge(err)
	}
	defer r.Close()
	err = verifyBytes(desc, progress, r, use)
	if seeker, ok := r.(io.Seeker); ok && errors.Is(err, errDiffers) {
		// As in a pull: the fetcher takes it from another host, where it is begun anew.
		if _, seekErr := seeker.Seek(0, io.SeekStart); seekErr == nil {
			err = verifyBytes(desc, progress, r, use)
		}
	}
	return err
}

// errDiffers is of content that has not its digest.
var errDiffers = errors.New("other content")

// verifyBytes is verifyBlob from what a fetch reads.
func verifyBytes(desc ocispec.Descriptor, progress *progress, r io.Reader, use func(io.Reader) error) error {
	verifier := desc.Digest.Verifier()
	all := &onceReader{Reader: io.TeeReader(io.LimitReader(progress.reader(r), desc.Size+1), verifier)}
	var useErr error
	if use != nil {
		lent := &lentReader{Reader: all}
		useErr = use(lent)
		lent.takeBack()
	}
	if _, err := io.Copy(io.Discard, all); err != nil {
		return progress.judge(err)
	}
	if !verifier.Verified() {
		return fmt.Errorf("%w than that of %s: %w", errDiffers, desc.Digest, errdefs.ErrFailedPrecondition)
	}
	return useErr
}

// lentReader is lent to one who may read it from a goroutine that outlives the loan, as containerd's decompressors do
// that are programs.
type lentReader struct {
	io.Reader
	mu    sync.Mutex // held by a read, for which takeBack waits
	taken bool
}

func (r *lentReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken {
		return 0, io.ErrClosedPipe
	}
	return r.Reader.Read(b)
}

// takeBack returns when nobody reads any more, nor will.
func (r *lentReader) takeBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = true
}

// onceReader reads nothing after an error, at which a fetch would begin anew.
type onceReader struct {
	io.Reader
	err error // the first one; io.EOF, too
}

func (r *onceReader) Read(b []byte) (n int, err error) {
	if r.err == nil {
		n, r.err = r.Reader.Read(b)
	}
	return n, r.err
}
