// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// boot is a node that comes back: the daemon has just started, and all pods ask at once
// for their images, none of which has changed.
func boot(ctx context.Context, b *bench) (lines []line, err error) {
	for _, kind := range []struct {
		what, reach string
		http1       bool
	}{
		{"HTTP/2", "≥ 3.5×; ≤ 75 requests; ≤ 2 connections", false},
		{"HTTP/1.1 alone", "≥ 3.5×; ≤ 75 requests; ≤ 16 connections", true},
	} {
		err = b.withPair(ctx, options{http1: kind.http1}, func(p *pair) error {
			first, again, err := p.boots(ctx)
			if err != nil {
				return err
			}
			lines = append(lines,
				compare(fmt.Sprintf("boot: %d pods at once ask for as many unchanged images of %d repositories, just after the start; registry with %s", bootPods, bootRepositories, kind.what), kind.reach, first),
				compare("… the same again", "≥ 8×", again))
			return nil
		})
		if err != nil {
			return lines, err
		}
	}
	return lines, nil
}

const bootPods, bootRepositories, bootRounds = 60, 12, 7

// boots measures the pods after a start, and the same pods again.
func (p *pair) boots(ctx context.Context) (first, again [2]costs, err error) {
	var images []pushed
	for i := range bootPods {
		image, err := p.pushImage(ctx, fmt.Sprintf("team/app-%d:%d", i%bootRepositories, i/bootRepositories), resolvertest.Image(int64(i), 1, 4096))
		if err != nil {
			return first, again, err
		}
		images = append(images, image)
	}
	if err := p.both(func(n *benchNode) error { return n.pullRight(ctx, 4, images...) }); err != nil {
		return first, again, err
	}
	pods := func(n *benchNode) (cost, error) {
		rest()
		c, err := p.measure(func() error { return n.pullRight(ctx, bootPods, images...) })
		if err == nil && c.requests < bootPods {
			err = fmt.Errorf("%s: %d checks by %d requests", n.side, bootPods, c.requests)
		}
		return c, err
	}
	first, err = p.alternate(bootRounds, func(n *benchNode) (cost, error) {
		if err := n.Restart(ctx); err != nil {
			return cost{}, err
		}
		c, err := pods(n)
		if err != nil {
			return c, err
		}
		after, err := pods(n)
		again[n.side] = append(again[n.side], after)
		return c, err
	})
	return first, again, err
}
