// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// parts is a registry that tells which bytes it was asked for.
type parts struct {
	has     map[digest.Digest][]byte
	whole   bool // it has no parts
	refuses bool
	mu      sync.Mutex
	asked   map[digest.Digest]string
	atOnce  atomic.Int32
	most    atomic.Int32
}

func (p *parts) Fetch(_ context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	p.most.Store(max(p.most.Load(), p.atOnce.Add(1)))
	defer p.atOnce.Add(-1)
	time.Sleep(time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[desc.Digest] += fmt.Sprintf("asked urls %v ", desc.URLs)
	all, ok := p.has[desc.Digest]
	if !ok {
		return nil, errdefs.ErrNotFound
	}
	if p.whole {
		return io.NopCloser(bytes.NewReader(all)), nil
	}
	return &part{bytes.NewReader(all), p, desc.Digest}, nil
}

type part struct {
	*bytes.Reader
	from *parts
	of   digest.Digest
}

func (p *part) Seek(offset int64, whence int) (int64, error) {
	p.from.mu.Lock()
	defer p.from.mu.Unlock()
	p.from.asked[p.of] += fmt.Sprintf("from %d", offset)
	if p.from.refuses {
		return 0, fmt.Errorf("seek: %w", remoteerrors.ErrUnexpectedStatus{StatusCode: http.StatusRequestedRangeNotSatisfiable})
	}
	return p.Reader.Seek(offset, whence)
}

func (p *part) Close() error { return nil }

// Each layer that runs is asked for once, by its last byte, and not by its urls; what is none by its type, and what was
// delivered, is not.
func TestVerifyLayers(t *testing.T) {
	for what, test := range map[string]struct {
		change func(layers []ocispec.Descriptor, p *parts)
		want   error
		asks   string
	}{
		"it has them":          {func([]ocispec.Descriptor, *parts) {}, nil, "asked urls [] from 6"},
		"it has no parts":      {func(_ []ocispec.Descriptor, p *parts) { p.whole = true }, nil, "asked urls [] asked urls [] "},
		"it refuses parts":     {func(_ []ocispec.Descriptor, p *parts) { p.refuses = true }, nil, "asked urls [] from 6asked urls [] "},
		"one is not there":     {func(l []ocispec.Descriptor, p *parts) { delete(p.has, l[5].Digest) }, errdefs.ErrNotFound, ""},
		"one is larger":        {func(l []ocispec.Descriptor, p *parts) { p.has[l[5].Digest] = []byte("layer 5, and more") }, errdefs.ErrFailedPrecondition, ""},
		"one is smaller":       {func(l []ocispec.Descriptor, p *parts) { p.has[l[5].Digest] = []byte("layer") }, errdefs.ErrFailedPrecondition, ""},
		"one is other content": {func(l []ocispec.Descriptor, p *parts) { p.whole, p.has[l[5].Digest] = true, []byte("other 5") }, errdefs.ErrFailedPrecondition, ""},
	} {
		db := newDB(t, t.TempDir())
		ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
		p := &parts{has: map[digest.Digest][]byte{}, asked: map[digest.Digest]string{}}
		var layers []ocispec.Descriptor
		for i := range 8 {
			layer := fmt.Appendf(nil, "layer %d", i)
			desc := describe(ocispec.MediaTypeImageLayer, layer)
			desc.URLs = []string{"https://elsewhere.test/layer"}
			p.has[desc.Digest] = layer
			layers = append(layers, desc, desc)
		}
		artifact := describe("application/vnd.example.sbom", []byte("an artifact"))
		delivered := describe(ocispec.MediaTypeImageLayerGzip, []byte("delivered"))
		img := newTestImage(t)
		img.manifest = mustJSON(t, ocispec.Manifest{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
			Config: img.configDesc, Layers: append([]ocispec.Descriptor{artifact, delivered}, layers...),
		})
		img.target = describe(ocispec.MediaTypeImageManifest, img.manifest)
		img.putAll(ctx, t, db)
		test.change(layers, p)
		err := New(db, 0).VerifyLayers(ctx, img.target, p, func(d digest.Digest) bool { return d == delivered.Digest })
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v", what, err)
		}
		if p.most.Load() > layersAtOnce {
			t.Errorf("%s: %d layers at once", what, p.most.Load())
		}
		if test.want != nil {
			continue
		}
		for _, layer := range layers {
			if got := p.asked[layer.Digest]; got != test.asks {
				t.Errorf("%s: %q, want %q", what, got, test.asks)
			}
		}
		if len(p.asked) != len(layers)/2 {
			t.Errorf("%s: it was asked for %d, of %d layers", what, len(p.asked), len(layers)/2)
		}
	}
}

// A registry that does not go on is given up, as in a pull.
func TestVerifyLayersStalls(t *testing.T) {
	db := newDB(t, t.TempDir())
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	img := newTestImage(t)
	img.putAll(ctx, t, db)
	none := func(digest.Digest) bool { return false }
	var stall *stalledError
	if err := New(db, 50*time.Millisecond).VerifyLayers(ctx, img.target, &stalled{}, none); !errors.As(err, &stall) {
		t.Error(err)
	}
}
