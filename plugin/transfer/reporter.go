// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"io"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/registry"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/provenance"
)

// reportingSource is a source of containerd's own that is made to report who
// served what. Its resolver and hosts are hidden in it; visible are the headers
// of the requests that it makes for a digest: the host that was asked last
// before bytes came has served them. Hosts that are not configured are those of
// token servers and of redirects, to which a configured host sent the client.
type reportingSource struct {
	*registry.OCIRegistry
	hosts  []hosts.Alias
	pieces atomic.Bool // layers are fetched in pieces side by side

	mu     sync.Mutex
	served map[digest.Digest][]hosts.Alias // in the order in which they did so last
}

var _ SourceReporter = (*reportingSource)(nil)

func newReportingSource(src *registry.OCIRegistry, aliases []hosts.Alias) *reportingSource {
	return &reportingSource{OCIRegistry: src, hosts: aliases, served: map[digest.Digest][]hosts.Alias{}}
}

// Hosts implements SourceReporter.
func (s *reportingSource) Hosts() (names []string) {
	for _, h := range s.hosts {
		names = append(names, h.Name)
	}
	return names
}

// ServedBy implements SourceReporter.
func (s *reportingSource) ServedBy(d digest.Digest) (p provenance.Provenance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.served[d] {
		p = p.Add(provenance.Provenance{Hosts: []string{h.Name}})
		p.Reference = h.Reference // "" as well: that of an earlier host is not this one's
	}
	return p
}

// addSource notes that a host has served bytes, later than all others.
func (s *reportingSource) addSource(d digest.Digest, h hosts.Alias) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served[d] = append(slices.DeleteFunc(s.served[d], func(other hosts.Alias) bool { return other == h }), h)
}

// SetResolverOptions implements transfer.ImageResolverOptionSetter.
func (s *reportingSource) SetResolverOptions(options ...transfer.ImageResolverOption) {
	var of transfer.ImageResolverOptions
	for _, set := range options {
		set(&of)
	}
	s.pieces.Store(of.Performances.ConcurrentLayerFetchBuffer > 0)
	s.OCIRegistry.SetResolverOptions(options...)
}

// Fetcher returns the source's fetcher.
func (s *reportingSource) Fetcher(ctx context.Context, ref string) (transfer.Fetcher, error) {
	inner, err := s.OCIRegistry.Fetcher(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &reportingFetcher{inner: inner, source: s}, nil
}

type reportingFetcher struct {
	inner  transfer.Fetcher
	source *reportingSource
}

// Fetch implements transfer.Fetcher. The requests are made when the reader is
// read, with the context of this call.
func (f *reportingFetcher) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	var named []hosts.Alias
	desc.URLs, named = namedURLs(desc.URLs)
	last := &lastHost{hosts: slices.Concat(f.source.hosts, named), pieces: f.source.pieces.Load()}
	rc, err := f.inner.Fetch(httptrace.WithClientTrace(ctx, last.trace()), desc)
	if err != nil {
		return nil, err
	}
	r := &reportingReader{ReadCloser: rc, source: f.source, digest: desc.Digest, last: last}
	if seeker, ok := rc.(io.Seeker); ok {
		return &reportingSeeker{reportingReader: r, seeker: seeker}, nil
	}
	return r, nil
}

// namedURLs returns those of the urls that content says itself it is at whose hosts can be named, and
// these, which may be no registries. The others are not followed: nobody could tell who served.
func namedURLs(urls []string) (kept []string, list []hosts.Alias) {
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil && provenance.Names(u) {
			kept = append(kept, text)
			list = append(list, hosts.Alias{Scheme: u.Scheme, Host: u.Host, Name: provenance.HostOf(u)})
		}
	}
	return kept, list
}

// reportingReader adds the source of the bytes that it reads.
type reportingReader struct {
	io.ReadCloser
	source *reportingSource
	digest digest.Digest
	last   *lastHost
	body   *hosts.Alias // whose answer is being read; nil: none yet
}

func (r *reportingReader) Read(p []byte) (int, error) {
	if r.body == nil { // a read of nothing makes the requests
		if n, err := r.ReadCloser.Read(p[:0]); err != nil {
			return n, err
		}
		r.body = r.last.get()
	}
	n, err := r.ReadCloser.Read(p)
	if n > 0 && r.body != nil {
		// A reader that lost its connection has already asked for the rest
		// when it returns the bytes from before.
		for _, h := range r.last.serving(*r.body) {
			r.source.addSource(r.digest, h)
		}
	}
	r.body = r.last.get()
	return n, err
}

// reportingSeeker can seek, to resume a download.
type reportingSeeker struct {
	*reportingReader
	seeker io.Seeker
}

// Seek implements io.Seeker. The next Read may ask another host.
func (r *reportingSeeker) Seek(offset int64, whence int) (int64, error) {
	r.body = nil
	return r.seeker.Seek(offset, whence)
}
