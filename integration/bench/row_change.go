// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// change pulls a tag over and over whose last layer is another one each time.
func change(ctx context.Context, b *bench) (lines []line, err error) {
	const rounds, layers, bytes = 11, 10, 1 << 20
	err = b.withPair(ctx, options{}, func(p *pair) error {
		var all [2]costs
		for round := range rounds + 1 { // the first one is a pull of all layers
			made, err := changed(round, layers, bytes)
			if err != nil {
				return err
			}
			image, err := p.pushImage(ctx, "app:1", made)
			if err != nil {
				return err
			}
			err = p.both(func(n *benchNode) error {
				c, err := p.measure(func() error { return n.pullRight(ctx, 1, image) })
				if err == nil && round > 0 {
					all[n.side] = append(all[n.side], c)
					err = p.wantBlobs(n, 2)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		lines = append(lines, compare(fmt.Sprintf("change: 1 layer of %d, of 1 MiB each, is another one", layers), "≥ 3×", all))
		return nil
	})
	return lines, err
}

// changed is an image whose layers are always the same but for the last one.
func changed(round, layers, bytes int) (v1.Image, error) {
	last, err := resolvertest.Image(int64(round)+2, 1, bytes).Layers()
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(resolvertest.Image(1, layers-1, bytes), last...)
}

// wantBlobs checks that the last pull has fetched no blob but those.
func (p *pair) wantBlobs(n *benchNode, want int) error {
	got := p.origin.Count(func(r resolvertest.Request) bool {
		return r.Method == http.MethodGet && r.Part == resolvertest.Blobs && r.Status < http.StatusMultipleChoices
	})
	if got != want {
		return fmt.Errorf("%s: a change of one layer fetched %d blobs, want %d", n.side, got, want)
	}
	return nil
}
