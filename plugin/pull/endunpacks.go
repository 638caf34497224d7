// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"sync"

	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/typeurl/v2"
)

// EndUnpacks has each layer that containerd unpacks be read for no longer than its context lasts: containerd
// looks at that between the files of a layer, and reads to its end whatever comes behind them, which may be terabytes of
// zeros. A pull that is given up would have its turn, and its memory, for that long.
var EndUnpacks = sync.OnceFunc(func() { diff.RegisterProcessor(ending) })

type endingKey struct{}

// ending is the diff.Handler of all layers that containerd itself decompresses, which go to whichever handler is next.
func ending(ctx context.Context, mediaType string) (diff.StreamProcessorInit, bool) {
	if _, err := images.DiffCompression(ctx, mediaType); err != nil || ctx.Value(endingKey{}) != nil {
		return nil, false
	}
	return func(ctx context.Context, stream diff.StreamProcessor, payloads map[string]typeurl.Any) (diff.StreamProcessor, error) {
		next, err := diff.GetProcessor(context.WithValue(ctx, endingKey{}, true), stream, payloads)
		if err != nil {
			return nil, err
		}
		return endingProcessor{next, ctx}, nil
	}, true
}

// endingProcessor is a stream that ends with a context.
type endingProcessor struct {
	diff.StreamProcessor
	ctx context.Context
}

// Read returns the error of the context once that has ended.
func (p endingProcessor) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.StreamProcessor.Read(b)
}

// Err returns why the stream is not whole, which containerd asks for at its end.
func (p endingProcessor) Err() error {
	if next, ok := p.StreamProcessor.(interface{ Err() error }); ok {
		return next.Err()
	}
	return nil
}
