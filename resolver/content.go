// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// fetcher lets the transport know which digest its requests are for, and the
// judge of a failed transfer which digest failed.
type fetcher struct {
	inner  transfer.Fetcher
	record *record
}

// Fetch implements transfer.Fetcher. The requests are made when the reader is
// read, which can also be sought.
func (f *fetcher) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	of := &fetch{record: f.record, digest: desc.Digest, document: isDocument(desc)}
	ctx = withCall(f.record.secrets.discreetly(ctx), call{fetch: of})
	rc, err := f.inner.Fetch(ctx, desc)
	if err != nil {
		return nil, f.record.fetchError(desc.Digest, err)
	}
	reader := &persistent{ReadCloser: rc, fetch: of}
	if of.document {
		return &documentReader{rc: reader, desc: desc, record: f.record}, nil
	}
	return &streamReader{rc: reader, desc: desc, record: f.record}, nil
}

// persistent asks all hosts once more when a fetch fails and some were passed
// over, since nothing else is left. Docker's fetcher begins anew with each read
// after an error.
type persistent struct {
	io.ReadCloser
	fetch *fetch
}

func (p *persistent) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if n == 0 && err != nil && err != io.EOF && p.fetch.again() {
		return p.ReadCloser.Read(b)
	}
	return n, err
}

func (p *persistent) Seek(offset int64, whence int) (int64, error) {
	seeker, ok := p.ReadCloser.(io.Seeker)
	if !ok {
		return 0, errUnseekable
	}
	return seeker.Seek(offset, whence)
}

var errUnseekable = errors.New("it cannot be sought")

// fetchError tells which content an error is about. Its text is clean.
type fetchError struct {
	digest digest.Digest
	err    error
}

func (r *record) fetchError(d digest.Digest, err error) *fetchError {
	return &fetchError{d, r.secrets.wrap(err.Error(), err)}
}

func (e *fetchError) Error() string { return e.err.Error() }
func (e *fetchError) Unwrap() error { return e.err }

// isDocument reports whether content is JSON that fits into memory.
func isDocument(desc ocispec.Descriptor) bool {
	return desc.Size <= docker.MaxManifestSize && desc.Digest.Validate() == nil &&
		(images.IsManifestType(desc.MediaType) || images.IsIndexType(desc.MediaType) || images.IsConfigType(desc.MediaType))
}

// documentReader reads a document as a whole and hands it out only if it has
// its digest. Otherwise it would stay in the content store as an ingest that
// can neither be committed nor continued.
type documentReader struct {
	rc     io.ReadCloser
	desc   ocispec.Descriptor
	record *record
	data   *bytes.Reader // nil = not read yet
	err    error
}

func (r *documentReader) load() error {
	if r.data != nil || r.err != nil {
		return r.err
	}
	data, err := io.ReadAll(io.LimitReader(r.rc, r.desc.Size+1))
	if err == nil {
		if got := r.desc.Digest.Algorithm().FromBytes(data); got != r.desc.Digest {
			err = fmt.Errorf("content with digest %s instead of %s", got, r.desc.Digest)
			r.record.corrupt(r.desc.Digest, err)
		}
	}
	if err != nil {
		r.err = r.record.fetchError(r.desc.Digest, err)
		return r.err
	}
	r.record.verified(r.desc.Digest)
	r.data = bytes.NewReader(data)
	return nil
}

func (r *documentReader) Read(p []byte) (int, error) {
	if err := r.load(); err != nil {
		return 0, err
	}
	return r.data.Read(p)
}

func (r *documentReader) Seek(offset int64, whence int) (int64, error) {
	if err := r.load(); err != nil {
		return 0, err
	}
	return r.data.Seek(offset, whence)
}

func (r *documentReader) Close() error { return r.rc.Close() }

// streamReader passes content on, which the content store compares with its
// digest, and notices when there is too little of it.
type streamReader struct {
	rc     io.ReadSeekCloser
	desc   ocispec.Descriptor
	record *record
	offset int64
}

func (r *streamReader) Read(p []byte) (int, error) {
	n, err := r.rc.Read(p)
	r.offset += int64(n)
	switch {
	case err == nil:
	case err != io.EOF: //nolint:errorlint // one that is wrapped is a failure
		err = r.record.fetchError(r.desc.Digest, err)
	case r.offset < r.desc.Size:
		err = fmt.Errorf("%d bytes of %d: %w", r.offset, r.desc.Size, io.ErrUnexpectedEOF)
		r.record.corrupt(r.desc.Digest, err)
		err = r.record.fetchError(r.desc.Digest, err)
	}
	return n, err
}

// Seek implements io.Seeker, for resuming what is half in the content store.
func (r *streamReader) Seek(offset int64, whence int) (int64, error) {
	at, err := r.rc.Seek(offset, whence)
	if err != nil {
		return at, r.record.fetchError(r.desc.Digest, err)
	}
	r.offset = at
	return at, nil
}

func (r *streamReader) Close() error { return r.rc.Close() }
