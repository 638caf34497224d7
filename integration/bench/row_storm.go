// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// storm asks for one unchanged image a hundred times at once.
func storm(ctx context.Context, b *bench) (lines []line, err error) {
	const pods = 100
	err = b.withPair(ctx, options{}, func(p *pair) error {
		ref, err := p.push(ctx, "app:1", resolvertest.Image(1, 7, 4096))
		if err != nil {
			return err
		}
		if err := p.both(func(n *node) error { return n.pulls(ctx, 1, ref, ref) }); err != nil {
			return err
		}
		costs, err := p.alternate(7, func(n *node) (cost, error) {
			c, err := p.measure(func() error { return n.pulls(ctx, pods, slices.Repeat([]string{ref}, pods)...) })
			if err == nil && c.requests == 0 {
				err = fmt.Errorf("%s: %d checks of %s without a request", n.side, pods, ref)
			}
			return c, err
		})
		lines = append(lines, compare("storm: 100 checks at once, until the last is done", "≥ 20×; ≤ 2 requests", costs))
		return err
	})
	return lines, err
}
