// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// cold pulls images that are not on the node: over and over, and as the first
// thing that a daemon does.
func cold(ctx context.Context, b *bench) (lines []line, err error) {
	for _, image := range []coldImage{
		{"1 layer of 4 MiB", "≥ 3.7×", 1, 4 << 20, nil},
		{"10 layers of 1 MiB", "≥ 3×", 10, 1 << 20, nil},
		{"10 layers of 1 MiB", "≥ 3×", 10, 1 << 20, []string{discardLayers}},
	} {
		err = b.withPair(ctx, options{images: image.images}, func(p *pair) error {
			more, err := image.pulls(ctx, p)
			lines = append(lines, more...)
			return err
		})
		if err != nil {
			return lines, err
		}
	}
	return lines, nil
}

// coldImage is an image, and lines of CRI's image plugin to pull it with.
type coldImage struct {
	what, reach   string
	layers, bytes int
	images        []string
}

func (i coldImage) pulls(ctx context.Context, p *pair) ([]line, error) {
	image, err := p.pushImage(ctx, "app:1", resolvertest.Image(1, i.layers, i.bytes))
	if err != nil {
		return nil, err
	}
	first, err := p.alternate(7, func(n *benchNode) (cost, error) {
		if err := n.Restart(ctx); err != nil {
			return cost{}, err
		}
		return p.coldPull(ctx, n, image, i.layers)
	})
	if err != nil {
		return nil, err
	}
	again, err := p.alternate(11, func(n *benchNode) (cost, error) { return p.coldPull(ctx, n, image, i.layers) })
	if err != nil {
		return nil, err
	}
	return []line{
		compare(with("cold pull, "+i.what, i.images), i.reach, again),
		compare(with("cold pull, "+i.what+", first one after a start", i.images), "≥ 2×", first),
	}, nil
}

// coldPull measures a pull of an image, and removes it afterwards. It is the
// only one on the node.
func (p *pair) coldPull(ctx context.Context, n *benchNode, image pushed, layers int) (cost, error) {
	c, err := p.measure(func() error { return n.pullRight(ctx, 1, image) })
	if err != nil {
		return c, err
	}
	blobs := p.origin.Count(func(r resolvertest.Request) bool {
		return r.Method == http.MethodGet && r.Part == resolvertest.Blobs && r.Status < http.StatusMultipleChoices
	})
	if blobs < layers+1 {
		return c, fmt.Errorf("%s: a cold pull of %s fetched %d blobs, want its config and its %d layers", n.side, image.ref, blobs, layers)
	}
	return c, n.forget(ctx, image.ref)
}
