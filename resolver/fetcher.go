// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"io"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// fetcher lets the tracker know which digest its requests are for, and the judge
// of a failed transfer which digest failed.
type fetcher struct {
	inner transfer.Fetcher
	log   *fetchLog
	// registryOnly keeps containerd from following the urls of a descriptor,
	// which it does before it asks a registry, whatever host they name.
	registryOnly bool
	kept         *document   // of the check; nil = none
	ahead        *prefetcher // nil = nothing is prefetched
	downloads    *downloads  // nil = containerd bounds them
	hosts        []*host     // that are asked, in their order
}

// Progress is [Source.Progress].
func (f *fetcher) Progress() (waiting, bytes int64) { return f.log.progress.state() }

// Fetch implements transfer.Fetcher. The requests are made when the reader is
// read, which can also be sought.
func (f *fetcher) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	if f.kept != nil && f.kept.digest == desc.Digest {
		if f.ahead != nil {
			f.ahead.read(f, desc, f.kept.data) //nolint:contextcheck // it has that of the pull
		}
		return f.kept.read(f.log), nil
	}
	if f.ahead != nil {
		if e := f.ahead.take(desc); e != nil {
			return f.join(ctx, e), nil
		}
	}
	rc, err := f.open(ctx, desc, &fetch{log: f.log})
	if err != nil {
		return nil, err
	}
	return rc, nil
}

// open begins a fetch, of which the log is set already.
func (f *fetcher) open(ctx context.Context, desc ocispec.Descriptor, of *fetch) (io.ReadSeekCloser, error) {
	of.digest, of.document, of.size = desc.Digest, isDocument(desc), desc.Size
	of.hosts = f.hosts
	of.blob, of.downloads = !images.IsManifestType(desc.MediaType) && !images.IsIndexType(desc.MediaType), f.downloads
	desc.URLs, of.elsewhere = followable(desc, of.log.documents())
	if f.registryOnly {
		of.log.unfollow(of.elsewhere)
		desc.URLs, of.elsewhere = nil, nil
	}
	of.hasURLs = len(desc.URLs) > 0
	// Docker's fetcher logs each url at level info: an image may have any number of them.
	ctx = withFetch(of.log.redactor.WithQuietLogger(ctx), of)
	of.ctx = ctx
	begin := func() (io.ReadCloser, error) { return f.inner.Fetch(ctx, desc) }
	rc, err := begin()
	if err != nil {
		return nil, of.log.fetchError(desc.Digest, err)
	}
	reader := &boundedReader{retryReader: &retryReader{ReadCloser: rc, ctx: ctx, open: begin, fetch: of}}
	if !of.document {
		return &streamReader{rc: reader, desc: desc, fetch: of}, nil
	}
	verifying := &verifyingReader{rc: reader, desc: desc, log: of.log}
	if f.ahead != nil {
		verifying.verified = func(data []byte) { f.ahead.read(f, desc, data) } //nolint:contextcheck // it has that of the pull
	}
	return verifying, nil
}

// fetchError tells which content an error is about. Its text is clean.
type fetchError struct {
	digest digest.Digest
	err    error
}

func (l *fetchLog) fetchError(d digest.Digest, err error) *fetchError {
	return &fetchError{digest: d, err: l.redactor.Wrap(err.Error(), err)}
}

func (e *fetchError) Error() string { return e.err.Error() }
func (e *fetchError) Unwrap() error { return e.err }

// isDocument reports whether content is JSON that fits into memory.
func isDocument(desc ocispec.Descriptor) bool {
	return desc.Size <= docker.MaxManifestSize && desc.Digest.Validate() == nil &&
		(images.IsManifestType(desc.MediaType) || images.IsIndexType(desc.MediaType) || images.IsConfigType(desc.MediaType))
}
