// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/resolver/provenance"
)

// trackedSource tells contentSources who served the content that is fetched
// from it, and has lost content fetched again.
type trackedSource struct {
	transfer.ImageFetcher
	reporter SourceReporter
	contents *contentSources
	// delivered gets the sources of what this pull has fetched.
	delivered *deliveries
	// dropLost makes room for content of the image whose file is lost.
	dropLost func(ctx context.Context, target digest.Digest)
}

var (
	_ transfer.ImageResolverOptionSetter = (*trackedSource)(nil)
	_ fmt.Stringer                       = (*trackedSource)(nil)
)

// String names the source in the progress of a pull.
func (s *trackedSource) String() string { return fmt.Sprint(s.ImageFetcher) }

// SetResolverOptions hands the options on.
func (s *trackedSource) SetResolverOptions(options ...transfer.ImageResolverOption) {
	if setter, ok := s.ImageFetcher.(transfer.ImageResolverOptionSetter); ok {
		setter.SetResolverOptions(options...)
	}
}

// Resolve returns what is to be pulled. It is called with the lease of the pull,
// before anything is fetched.
func (s *trackedSource) Resolve(ctx context.Context) (string, ocispec.Descriptor, error) {
	name, desc, err := s.ImageFetcher.Resolve(ctx)
	if err == nil {
		s.dropLost(ctx, desc.Digest)
	}
	return name, desc, err
}

// Fetcher returns the source's fetcher.
func (s *trackedSource) Fetcher(ctx context.Context, ref string) (transfer.Fetcher, error) {
	inner, err := s.ImageFetcher.Fetcher(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &trackedFetcher{inner: inner, source: s}, nil
}

type trackedFetcher struct {
	inner  transfer.Fetcher
	source *trackedSource
}

// Fetch implements transfer.Fetcher.
func (f *trackedFetcher) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	rc, err := f.inner.Fetch(ctx, desc)
	if err != nil {
		return nil, err
	}
	r := &trackedReader{ReadCloser: rc, ctx: context.WithoutCancel(ctx), desc: desc, source: f.source}
	if seeker, ok := rc.(io.Seeker); ok {
		return &trackedSeeker{trackedReader: r, seeker: seeker}, nil
	}
	return r, nil
}

// trackedReader adds the source of its bytes at two moments: at an EOF, before
// which nothing can be committed, so that a committed download always has its
// source; and at Close, which is after the commit, so that the source can be
// persisted.
type trackedReader struct {
	io.ReadCloser
	// ctx is the fetch's, of which the reader is the second half. It outlives
	// the pull, so that the content is found when the reader is closed.
	ctx    context.Context
	desc   ocispec.Descriptor
	source *trackedSource
	offset int64 // where the first Read begins
	begun  bool  // bytes were read, from offset
	// earlier is where the bytes before offset came from, of which the memory may be lost while the others come; zero
	// where there are none, or nobody knows.
	earlier provenance.Provenance
}

func (r *trackedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if n > 0 && !r.begun {
		r.begin()
	}
	if err != nil {
		r.addSource()
	}
	return n, err
}

// begin notes at the first bytes where those before them came from. An unfinished download outlives the memory of it:
// there is no room for that of all, and a restart loses it. All bytes in a scope that follows no urls are of the hosts of its
// source, which are those of this pull: any of them may have served some.
func (r *trackedReader) begin() {
	r.begun, r.earlier = true, provenance.Provenance{}
	if r.offset == 0 { // The download starts anew: bytes of an earlier attempt are gone.
		r.source.contents.forget(r.ctx, r.desc.Digest)
		return
	}
	key := keyOf(r.ctx, r.desc.Digest)
	r.earlier = r.source.contents.pendingOf(key)
	if !r.earlier.Known() && key.scope.RegistryOnly() {
		r.earlier.Hosts = r.source.reporter.Hosts()
	}
}

// addSource adds the hosts that have served the content, and that not all are known where nobody
// knows whose its beginning, or the rest, is. Only a manifest or
// index gets a reference: other content belongs to many images.
func (r *trackedReader) addSource() {
	if !r.begun {
		return
	}
	p := r.source.reporter.ServedBy(r.desc.Digest)
	if !images.IsManifestType(r.desc.MediaType) && !images.IsIndexType(r.desc.MediaType) {
		p.Reference = ""
	}
	if r.offset > 0 && p.Known() != r.earlier.Known() {
		p.More = max(p.More, 1)
	}
	r.source.contents.add(r.ctx, r.desc.Digest, r.earlier.Add(p))
}

// served are the hosts that have served the content to this pull.
func (r *trackedReader) served() provenance.Provenance {
	return provenance.Provenance{Hosts: r.source.reporter.ServedBy(r.desc.Digest).Hosts}
}

// Close persists the source of content that is complete, and forgets it where its file is
// not what has come.
func (r *trackedReader) Close() error {
	r.addSource()
	if r.begun {
		// A pull does not fail because its source cannot be written.
		p, err := r.source.contents.persist(r.ctx, r.desc.Digest)
		if !errdefs.IsNotFound(err) {
			r.source.delivered.add(r.desc.Digest, p.Add(r.served())) // also where another download was there first
		}
		if err != nil && !errdefs.IsNotFound(err) {
			warnNotRecorded(r.ctx, r.desc.Digest, err)
		}
		// A broken file that another namespace alone had stays in the place of what has
		// come. This pull fails by it; the next one must not.
		if err := r.source.contents.dropIfLost(r.ctx, r.desc.Digest); err != nil {
			prefixlog.G(r.ctx).WithError(err).Warnf("lost content %s may not be fetched again", r.desc.Digest)
		}
	}
	return r.ReadCloser.Close()
}

// trackedSeeker can seek, to resume a download that is half in the content
// store.
type trackedSeeker struct {
	*trackedReader
	seeker io.Seeker
}

// Seek implements io.Seeker.
func (r *trackedSeeker) Seek(offset int64, whence int) (int64, error) {
	at, err := r.seeker.Seek(offset, whence)
	r.offset, r.begun = at, false
	return at, err
}
