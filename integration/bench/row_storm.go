// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// storm asks for one unchanged image a hundred times at once.
func storm(ctx context.Context, b *bench) (lines []line, err error) {
	err = b.withPair(ctx, options{}, func(p *pair) error {
		for _, image := range []struct {
			ref, what, reach string
			layers           int
		}{
			{"app:1", fmt.Sprintf("storm: 100 checks at once of an image of %d layers, until the last is done", layers), "≥ 20×; ≤ 2 requests", layers},
			{"small:1", "… of an image with a single layer", "", 1},
		} {
			ref, err := p.push(ctx, image.ref, resolvertest.Image(1, image.layers, 4096))
			if err != nil {
				return err
			}
			costs, err := p.storms(ctx, ref)
			if err != nil {
				return err
			}
			lines = append(lines, compare(image.what, image.reach, costs))
		}
		return nil
	})
	return lines, err
}

// storms pulls an image on both nodes, and then measures its storms.
func (p *pair) storms(ctx context.Context, ref string) ([2]costs, error) {
	const pods, rounds = 100, 9
	if err := p.both(func(n *benchNode) error { return n.pulls(ctx, 1, ref, ref) }); err != nil {
		return [2]costs{}, err
	}
	return p.alternate(rounds, func(n *benchNode) (cost, error) {
		rest()
		c, err := p.measure(func() error { return n.pulls(ctx, pods, slices.Repeat([]string{ref}, pods)...) })
		if err == nil && c.requests == 0 {
			err = fmt.Errorf("%s: %d checks of %s without a request", n.side, pods, ref)
		}
		return c, err
	})
}

// rest lets the daemons do what the last storm left them to do, and takes away
// what it left in this process, which has the registries.
func rest() {
	runtime.GC()
	time.Sleep(200 * time.Millisecond)
}
