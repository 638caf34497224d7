// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
)

// maxBarren bounds how often a retryReader goes on in a row without a byte that comes of it.
const maxBarren = 3

// retryReader asks more hosts when a fetch fails, where hosts were left or passed over meanwhile.
// Docker's fetcher gives up after some failures in a row, whichever hosts they were of, and where
// it fetches in pieces side by side, the one that is read fails because another did: for that it
// asks nobody but the host that began.
type retryReader struct {
	io.ReadCloser
	ctx    context.Context               //nolint:containedctx // of the fetch: requests are made when it is read
	open   func() (io.ReadCloser, error) // another one for the same content, from its start
	fetch  *fetch
	barren int // how often it went on since the last byte, though no host was left or passed over
}

func (r *retryReader) Read(b []byte) (int, error) {
	of := r.fetch
	n, err := of.log.progress.read(r.ReadCloser, b)
	for n == 0 && err != nil && err != io.EOF && r.goOn(err) { //nolint:errorlint // one that is wrapped is a failure
		n, err = of.log.progress.read(r.ReadCloser, b)
	}
	if n > 0 {
		r.barren = 0
		of.gave()
	}
	if n > 0 && err != io.EOF { //nolint:errorlint // likewise
		err = nil // the next read fails as well, or has the rest
	}
	return n, err
}

// goOn reports whether what has failed is worth another read, and prepares for that. Where no host
// was left or passed over, it is if one has begun to answer since the last time: otherwise all were
// asked, and none gave anything.
func (r *retryReader) goOn(err error) bool {
	of := r.fetch
	switch {
	case of.moved.Swap(false) || of.again():
		return r.beginAnew()
	case r.barren == maxBarren || !of.begun.Swap(false) || of.final.Load() || r.ctx.Err() != nil:
		return false
	}
	r.barren++
	// Docker's reader asks for the rest itself after this failure, and counts how often.
	return err == io.ErrUnexpectedEOF || r.beginAnew() //nolint:errorlint // docker's does not look into it either
}

// beginAnew opens another reader for the rest, and reports whether there is one.
func (r *retryReader) beginAnew() bool {
	at, err := r.Seek(0, io.SeekCurrent)
	if err != nil {
		return false
	}
	rest, err := r.open()
	if err != nil {
		return false
	}
	_ = r.Close()
	r.ReadCloser = rest
	_, err = r.Seek(at, io.SeekStart)
	return err == nil
}

func (r *retryReader) Seek(offset int64, whence int) (int64, error) {
	seeker, ok := r.ReadCloser.(io.Seeker)
	if !ok {
		return 0, errUnseekable
	}
	return seeker.Seek(offset, whence)
}

var errUnseekable = errors.New("it cannot be sought")

// verifyingReader reads a document as a whole and hands it out only if it has its digest and its
// size, and names others by digests. Otherwise it would stay in the content store as an ingest
// that can neither be committed nor continued.
type verifyingReader struct {
	rc   io.ReadCloser
	desc ocispec.Descriptor
	log  *fetchLog
	data *bytes.Reader // nil = not read yet
	err  error
	// verified is called with the document once it is known to have its digest; nil for
	// nothing.
	verified func(data []byte)
}

func (r *verifyingReader) load() error {
	if r.data != nil || r.err != nil {
		return r.err
	}
	data, err := io.ReadAll(io.LimitReader(r.rc, r.desc.Size+1))
	if err == nil {
		if got := r.desc.Digest.Algorithm().FromBytes(data); got != r.desc.Digest {
			err = fmt.Errorf("content with digest %s instead of %s", got, r.desc.Digest)
		} else if size := int64(len(data)); size != r.desc.Size {
			err = fmt.Errorf("%s has %d bytes instead of %d", r.desc.Digest, size, r.desc.Size)
		} else if err = r.validate(data); err != nil {
			err = fmt.Errorf("%s: %w", r.desc.Digest, err)
		}
		if err != nil {
			r.log.corrupt(r.desc.Digest, err)
		}
	}
	if err != nil {
		r.err = r.log.fetchError(r.desc.Digest, err)
		return r.err
	}
	r.log.verified(r.desc.Digest)
	r.data = bytes.NewReader(data)
	if r.verified != nil {
		r.verified(data)
	}
	return nil
}

// validate returns an error for a document that names things by what is no digest or too long, or is a config with a
// secret of the pull: see checkConfig.
func (r *verifyingReader) validate(data []byte) error {
	if err := documents.Validate(r.desc.MediaType, data); err != nil {
		return err
	}
	return r.log.checkConfig(r.desc.MediaType, data)
}

func (r *verifyingReader) Read(p []byte) (int, error) {
	if err := r.load(); err != nil {
		return 0, err
	}
	return r.data.Read(p)
}

func (r *verifyingReader) Seek(offset int64, whence int) (int64, error) {
	if err := r.load(); err != nil {
		return 0, err
	}
	return r.data.Seek(offset, whence)
}

func (r *verifyingReader) Close() error { return r.rc.Close() }

// streamReader passes content on, which the content store compares with its
// digest, and notices when there is too little of it, or too much.
type streamReader struct {
	rc     io.ReadSeekCloser
	desc   ocispec.Descriptor
	fetch  *fetch
	offset int64
	// resumed says that bytes before those that were read here were there already.
	resumed bool
}

func (r *streamReader) Read(p []byte) (int, error) {
	n, err := r.rc.Read(p[:min(int64(len(p)), max(r.desc.Size-r.offset, 1))])
	r.offset += int64(n)
	switch {
	case err == nil:
	case r.offset == r.desc.Size && errdefs.IsFailedPrecondition(err):
		// There is more, of which containerd's fetcher gives nothing. One byte of it is
		// enough to make whoever reads throw all of it away.
		p[0], n, err = 0, 1, nil
		r.offset++
	case err != io.EOF: //nolint:errorlint // one that is wrapped is a failure
		err = r.fetch.log.fetchError(r.desc.Digest, err)
	case r.offset < r.desc.Size && r.fetch.ended():
		_, err = r.rc.Seek(r.offset, io.SeekStart) // the next read asks for the rest
	case r.offset < r.desc.Size:
		err = fmt.Errorf("%d bytes of %d: %w", r.offset, r.desc.Size, io.ErrUnexpectedEOF)
		r.fetch.log.corrupt(r.desc.Digest, err)
		err = r.fetch.log.fetchError(r.desc.Digest, err)
	}
	return n, err
}

// Seek implements io.Seeker, for resuming what is half in the content store, and
// for beginning anew once that has thrown away what came.
func (r *streamReader) Seek(offset int64, whence int) (int64, error) {
	at, err := r.rc.Seek(offset, whence)
	if err != nil {
		return at, r.fetch.log.fetchError(r.desc.Digest, err)
	}
	if at == 0 && r.offset > 0 {
		r.fetch.restart(r.resumed)
	}
	r.resumed = at > 0
	r.offset = at
	return at, nil
}

func (r *streamReader) Close() error { return r.rc.Close() }
