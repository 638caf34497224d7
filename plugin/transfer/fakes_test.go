// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/provenance"
)

// fakeImage is a manifest, or an index of one, with its content.
type fakeImage struct {
	blobs  map[digest.Digest][]byte
	desc   ocispec.Descriptor // of what a name stands for
	config ocispec.Descriptor
	layers []ocispec.Descriptor
}

// newImage makes an image with one layer for each of the contents.
func newImage(layers ...string) *fakeImage {
	f := &fakeImage{blobs: map[digest.Digest][]byte{}}
	for _, l := range layers {
		f.layers = append(f.layers, f.add(ocispec.MediaTypeImageLayer, []byte(l)))
	}
	f.config = f.addJSON(ocispec.MediaTypeImageConfig, ocispec.Image{Author: fmt.Sprint(layers)})
	f.desc = f.addJSON(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: f.config, Layers: f.layers,
	})
	return f
}

func (f *fakeImage) addJSON(mediaType string, v any) ocispec.Descriptor {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return f.add(mediaType, data)
}

func (f *fakeImage) add(mediaType string, data []byte) ocispec.Descriptor {
	d := digest.FromBytes(data)
	f.blobs[d] = data
	return ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(data))}
}

// fakeSource serves an image, each digest from the host that is named for it.
type fakeSource struct {
	*fakeImage
	host string // that serves what by does not name
	by   map[digest.Digest]string
	cut  map[digest.Digest]int // after how many bytes of it the host goes away

	mu     sync.Mutex
	served map[digest.Digest][]string
}

func (s *fakeSource) Resolve(context.Context) (string, ocispec.Descriptor, error) {
	return appName, s.desc, nil
}

func (s *fakeSource) Fetcher(context.Context, string) (transfer.Fetcher, error) { return s, nil }

func (s *fakeSource) Fetch(_ context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	data, ok := s.blobs[desc.Digest]
	if !ok {
		return nil, errdefs.ErrNotFound
	}
	host, ok := s.by[desc.Digest]
	if !ok {
		host = s.host
	}
	return &fakeReader{Reader: bytes.NewReader(data), cut: s.cut[desc.Digest], read: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.served == nil {
			s.served = map[digest.Digest][]string{}
		}
		if !slices.Contains(s.served[desc.Digest], host) {
			s.served[desc.Digest] = append(s.served[desc.Digest], host)
		}
	}}, nil
}

func (s *fakeSource) Hosts() []string { return []string{"b", "a"} }

func (s *fakeSource) ServedBy(d digest.Digest) (p provenance.Provenance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.served[d] {
		p = p.Add(provenance.Provenance{Reference: h + "/app:1", Hosts: []string{h}})
	}
	return p
}

// fakeReader says when it was read, and breaks off where it is told to.
type fakeReader struct {
	*bytes.Reader
	cut  int
	read func()
}

func (r *fakeReader) Read(p []byte) (int, error) {
	if r.cut > 0 {
		left := r.cut - int(r.Size()) + r.Len()
		if left <= 0 {
			return 0, errGone
		}
		p = p[:min(len(p), left)]
	}
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.read()
	}
	return n, err
}

var errGone = errors.New("the host is gone")

func (*fakeReader) Close() error { return nil }

// silentSource is no SourceReporter.
type silentSource struct{ inner *fakeSource }

func (s *silentSource) Resolve(ctx context.Context) (string, ocispec.Descriptor, error) {
	return s.inner.Resolve(ctx)
}

func (s *silentSource) Fetcher(ctx context.Context, ref string) (transfer.Fetcher, error) {
	return s.inner.Fetcher(ctx, ref)
}

// transferFunc is a transfer service that does nothing but say what it got.
type transferFunc func(source, destination any)

func (f transferFunc) Transfer(_ context.Context, source, destination any, _ ...transfer.Opt) error {
	f(source, destination)
	return nil
}
