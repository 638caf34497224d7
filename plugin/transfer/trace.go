// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"io"
	"net/http/httptrace"
	"slices"
	"sync"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/registry"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Host is a host that a pull may ask.
type Host struct {
	Address   string // host[:port], as its requests name it
	Name      string // as references spell it
	Reference string // what it calls the image; "" when that is not known
}

// tracedSource is a source of containerd's own, whose resolver and hosts are
// hidden in it. What can be seen are the headers of the requests that it makes
// for a digest: the host that was asked last before bytes came has served
// them. Hosts that are not configured are those of token servers and of
// redirects, which a configured host sent the client to.
type tracedSource struct {
	*registry.OCIRegistry
	hosts []Host

	mu     sync.Mutex
	served map[digest.Digest][]Host
}

func newTracedSource(src *registry.OCIRegistry, hosts []Host) *tracedSource {
	return &tracedSource{OCIRegistry: src, hosts: hosts, served: map[digest.Digest][]Host{}}
}

// Hosts implements Witness.
func (s *tracedSource) Hosts() (names []string) {
	for _, h := range s.hosts {
		names = append(names, h.Name)
	}
	return names
}

// ServedBy implements Witness.
func (s *tracedSource) ServedBy(d digest.Digest) (reference string, hosts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.served[d] {
		reference, hosts = h.Reference, append(hosts, h.Name)
	}
	return reference, hosts
}

// credit notes that a host has served bytes, later than all others.
func (s *tracedSource) credit(d digest.Digest, h Host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served[d] = append(slices.DeleteFunc(s.served[d], func(other Host) bool { return other == h }), h)
}

// Fetcher returns the source's fetcher.
func (s *tracedSource) Fetcher(ctx context.Context, ref string) (transfer.Fetcher, error) {
	inner, err := s.OCIRegistry.Fetcher(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &tracedFetcher{inner: inner, source: s}, nil
}

type tracedFetcher struct {
	inner  transfer.Fetcher
	source *tracedSource
}

// Fetch implements transfer.Fetcher. The requests are made when the reader is
// read, with the context of this call.
func (f *tracedFetcher) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	if len(desc.URLs) > 0 {
		// Such content may come from hosts that are no registries.
		return f.inner.Fetch(ctx, desc)
	}
	a := &asked{hosts: f.source.hosts}
	rc, err := f.inner.Fetch(httptrace.WithClientTrace(ctx, a.trace()), desc)
	if err != nil {
		return nil, err
	}
	r := &tracedReader{ReadCloser: rc, asked: a, credit: func(h Host) { f.source.credit(desc.Digest, h) }}
	if seeker, ok := rc.(io.Seeker); ok {
		return &tracedSeeker{tracedReader: r, seeker: seeker}, nil
	}
	return r, nil
}

// asked is which of the hosts was asked last.
type asked struct {
	hosts []Host
	mu    sync.Mutex
	last  *Host
}

func (a *asked) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{WroteHeaderField: func(key string, value []string) {
		if key != "Host" && key != ":authority" || len(value) != 1 {
			return
		}
		for i := range a.hosts {
			if a.hosts[i].Address == value[0] {
				a.mu.Lock()
				a.last = &a.hosts[i]
				a.mu.Unlock()
			}
		}
	}}
}

func (a *asked) host() *Host {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// tracedReader gives credit for the bytes that it reads.
type tracedReader struct {
	io.ReadCloser
	asked  *asked
	credit func(Host)
	body   *Host // whose answer is being read; nil = none yet
}

func (r *tracedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	last := r.asked.host()
	if n > 0 {
		// A reader that lost its connection has already asked for the rest
		// when it returns the bytes from before.
		from := r.body
		if from == nil {
			from = last
		}
		if from != nil {
			r.credit(*from)
		}
	}
	r.body = last
	return n, err
}

// tracedSeeker can be sought.
type tracedSeeker struct {
	*tracedReader
	seeker io.Seeker
}

// Seek implements io.Seeker. The next Read may ask another host.
func (r *tracedSeeker) Seek(offset int64, whence int) (int64, error) {
	r.body = nil
	return r.seeker.Seek(offset, whence)
}
