// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// endlessBody is a fetch that sends zeros, slowly, until its context ends, and counts who reads it.
type endlessBody struct {
	ctx          context.Context
	readers      atomic.Int32
	beside, late atomic.Bool // somebody has read it beside another, or after it was closed
	closed       atomic.Bool
}

// Fetch implements transfer.Fetcher.
func (b *endlessBody) Fetch(ctx context.Context, _ ocispec.Descriptor) (io.ReadCloser, error) {
	b.ctx = ctx
	return b, nil
}

func (b *endlessBody) Read(p []byte) (int, error) {
	if b.readers.Add(1) > 1 {
		b.beside.Store(true)
	}
	defer b.readers.Add(-1)
	if b.closed.Load() {
		b.late.Store(true)
	}
	select {
	case <-b.ctx.Done():
		time.Sleep(time.Millisecond) // a connection hears of it a little later
		return 0, b.ctx.Err()
	case <-time.After(time.Millisecond):
		clear(p[:1])
		return 1, nil
	}
}

func (b *endlessBody) Close() error {
	b.closed.Store(true)
	return nil
}

// A decompressor that is a program is fed by a goroutine, which outlives a comparison that ends with its context: it reads
// the layer neither beside the comparison nor after that.
func TestLayerIsReadByOneAtATime(t *testing.T) {
	t.Parallel()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		b, feeder := new(endlessBody), make(chan struct{})
		desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: 1 << 20}
		err := New(nil, time.Minute).verifyBlob(ctx, desc, b, func(r io.Reader) error {
			go func() {
				defer close(feeder)
				_, _ = io.Copy(io.Discard, r)
			}()
			time.Sleep(3 * time.Millisecond)
			cancel()
			return ctx.Err()
		})
		if err == nil {
			t.Fatal("it has not ended with its context")
		}
		<-feeder
		if b.beside.Load() || b.late.Load() {
			t.Fatalf("the layer was read by two at a time: %v, after it was closed: %v", b.beside.Load(), b.late.Load())
		}
	}
}
