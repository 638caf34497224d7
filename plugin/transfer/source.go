// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// recordedSource enters in the ledger who served what is fetched from it.
type recordedSource struct {
	transfer.ImageFetcher
	witness Witness
	ledger  *ledger
}

var (
	_ transfer.ImageResolverOptionSetter = (*recordedSource)(nil)
	_ fmt.Stringer                       = (*recordedSource)(nil)
)

// String names the source in the progress of a pull.
func (s *recordedSource) String() string { return fmt.Sprint(s.ImageFetcher) }

// SetResolverOptions hands the options on.
func (s *recordedSource) SetResolverOptions(options ...transfer.ImageResolverOption) {
	if setter, ok := s.ImageFetcher.(transfer.ImageResolverOptionSetter); ok {
		setter.SetResolverOptions(options...)
	}
}

// Fetcher returns the source's fetcher.
func (s *recordedSource) Fetcher(ctx context.Context, ref string) (transfer.Fetcher, error) {
	inner, err := s.ImageFetcher.Fetcher(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &recordedFetcher{inner: inner, source: s}, nil
}

type recordedFetcher struct {
	inner  transfer.Fetcher
	source *recordedSource
}

// Fetch implements transfer.Fetcher.
func (f *recordedFetcher) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	rc, err := f.inner.Fetch(ctx, desc)
	if err != nil {
		return nil, err
	}
	r := &recordedReader{ReadCloser: rc, ctx: context.WithoutCancel(ctx), desc: desc, source: f.source}
	if seeker, ok := rc.(io.Seeker); ok {
		return &recordedSeeker{recordedReader: r, seeker: seeker}, nil
	}
	return r, nil
}

// recordedReader enters what was read in the ledger: before the content can be
// committed, which takes an EOF, and when it is closed, which is after that.
type recordedReader struct {
	io.ReadCloser
	ctx    context.Context // of the fetch, to find the content once it is over
	desc   ocispec.Descriptor
	source *recordedSource
	offset int64
	taken  bool // bytes were handed out
}

func (r *recordedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if n > 0 && !r.taken {
		if r.offset == 0 {
			// Nothing is left of what an earlier attempt got.
			r.source.ledger.forget(r.ctx, r.desc.Digest)
		}
		r.taken = true
	}
	if err != nil {
		r.enter()
	}
	return n, err
}

func (r *recordedReader) enter() {
	if !r.taken {
		return
	}
	var o origin
	o.reference, o.hosts = r.source.witness.ServedBy(r.desc.Digest)
	if !images.IsManifestType(r.desc.MediaType) && !images.IsIndexType(r.desc.MediaType) {
		o.reference = ""
	}
	r.source.ledger.served(r.ctx, r.desc.Digest, o)
}

func (r *recordedReader) Close() error {
	r.enter()
	if r.taken {
		r.source.ledger.settle(r.ctx, r.desc.Digest)
	}
	return r.ReadCloser.Close()
}

// recordedSeeker can be sought, to resume what is half in the content store.
type recordedSeeker struct {
	*recordedReader
	seeker io.Seeker
}

// Seek implements io.Seeker.
func (r *recordedSeeker) Seek(offset int64, whence int) (int64, error) {
	at, err := r.seeker.Seek(offset, whence)
	r.offset, r.taken = at, false
	return at, err
}
