// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

// writer writes unfinished content. Bytes that turn out not to have the digest or
// size that they must have are thrown away, and written once more from the start:
// an earlier attempt, or a host that went away in the middle, may have left them.
type writer struct {
	content.Writer // of the store; nil when it could not be opened again
	contents       *contents
	ref            string
	desc           ocispec.Descriptor
	hidden         bool // the content is written whether or not it is there: ownDocuments
	restarted      bool
	ctx            context.Context //nolint:containedctx // of the call that opened it: Write has none
}

// Write writes more of the content. Where that is more than there must be, all of it
// is thrown away, as by Commit.
func (w *writer) Write(p []byte) (int, error) {
	status, err := w.Writer.Status()
	if err != nil {
		return 0, err
	}
	if size := w.desc.Size; size > 0 && status.Offset+int64(len(p)) > size {
		return 0, w.again(w.ctx, fmt.Errorf("more than the %d bytes of %s: %w", size, w.desc.Digest, errdefs.ErrFailedPrecondition))
	}
	if w.contents.progress != nil {
		w.contents.progress.receives(w.desc.Digest)
	}
	return w.Writer.Write(p)
}

// open opens the store's writer. Complete content that has another digest than it
// must have is thrown away: it could neither be committed nor continued.
func (w *writer) open(ctx context.Context) error {
	if err := w.reopen(ctx); err != nil {
		return err
	}
	status, err := w.Writer.Status()
	if err != nil {
		return errors.Join(err, w.Close())
	}
	size := w.desc.Size
	if size <= 0 || status.Offset < size || status.Offset == size && w.Digest() == w.desc.Digest {
		return nil
	}
	return w.restart(ctx)
}

func (w *writer) reopen(ctx context.Context) (err error) {
	desc := w.desc
	if w.hidden {
		desc.Digest = "" // by which the store would find it, also in other namespaces
	}
	w.Writer, err = w.contents.Store.Writer(ctx, content.WithRef(w.ref+w.contents.suffix()), content.WithDescriptor(desc))
	if err != nil {
		w.Writer = nil
		return err
	}
	w.contents.setOpen(w.ref, true)
	return nil
}

// Status returns the status under the reference that the writer was opened with.
func (w *writer) Status() (content.Status, error) {
	status, err := w.Writer.Status()
	status.Ref = w.ref
	return status, err
}

// Commit commits the content. When it has not the digest or size that it must
// have, it is thrown away: the first time, the error is content.ErrReset, after
// which content.Copy begins again. A document that was hidden is shown from then on; where it
// is there already, that stays as it is, since it has the same digest.
func (w *writer) Commit(ctx context.Context, size int64, expected digest.Digest, opts ...content.Opt) error {
	if w.hidden && expected == "" {
		expected = w.desc.Digest
	}
	err := w.Writer.Commit(ctx, size, expected, append(slices.Clip(opts), w.contents.labelled(ctx, expected))...)
	if w.hidden && expected != "" && (err == nil || errdefs.IsAlreadyExists(err)) {
		w.contents.show(expected)
		return nil
	}
	if !errdefs.IsFailedPrecondition(err) {
		return err
	}
	return w.again(ctx, err)
}

// again throws away what there is, because of that error. The first time, the error is
// content.ErrReset.
func (w *writer) again(ctx context.Context, err error) error {
	if w.restarted {
		return errors.Join(err, w.discard(ctx))
	}
	w.restarted = true
	prefixlog.G(ctx).WithError(err).Warnf("what was downloaded of %s is thrown away and fetched once more", w.desc.Digest)
	if err := w.restart(ctx); err != nil {
		return err
	}
	return content.ErrReset
}

// restart throws away what there is, and opens the store's writer again.
func (w *writer) restart(ctx context.Context) error {
	if status, err := w.Writer.Status(); err == nil {
		w.contents.addDiscarded(w.ref, status.Offset)
	}
	if err := w.discard(ctx); err != nil {
		return err
	}
	return w.reopen(ctx)
}

// discard closes the store's writer and removes what it has written, also when
// the pull has ended meanwhile.
func (w *writer) discard(ctx context.Context) error {
	err := w.Close()
	w.Writer = nil
	if abortErr := w.contents.Abort(context.WithoutCancel(ctx), w.ref); !errdefs.IsNotFound(abortErr) {
		err = errors.Join(err, abortErr)
	}
	if err != nil {
		return fmt.Errorf("throw away what was downloaded of %s: %w", w.desc.Digest, err)
	}
	return nil
}

// Close closes the store's writer. Unfinished content stays.
func (w *writer) Close() error {
	if w.Writer == nil {
		return nil
	}
	w.contents.setOpen(w.ref, false)
	return w.Writer.Close()
}
