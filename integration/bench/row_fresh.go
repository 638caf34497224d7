// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// fresh asks for an image whose last check is young enough to count, on nodes
// with many images.
func fresh(ctx context.Context, b *bench) (lines []line, err error) {
	const others, rounds = 5000, 100
	rules := "[[rule]]\nimages = ['" + registry + "/**']\npolicy = 'IfDigestChanged'\nmax_age = '1h'\n"
	err = b.withPair(ctx, options{rules: rules}, func(p *pair) error {
		ref, err := p.push(ctx, "app:1", resolvertest.Image(1, 1, 4096))
		if err != nil {
			return err
		}
		if err := p.both(func(n *node) error { return n.fill(ctx, others) }); err != nil {
			return err
		}
		if err := p.both(func(n *node) error { return n.pulls(ctx, 1, ref, ref) }); err != nil {
			return err
		}
		n := p.nodes[ours]
		mark, err := n.mark()
		if err != nil {
			return err
		}
		costs, err := p.alternate(rounds, func(n *node) (cost, error) {
			return p.measure(func() error {
				_, err := n.pull(ctx, ref)
				return err
			})
		})
		if err != nil {
			return err
		}
		lines = append(lines, compare(fmt.Sprintf("fresh hit: max_age 1h, %d other images on the node", others), "no request", costs))
		for _, c := range costs[ours] {
			if c.requests > 0 {
				return fmt.Errorf("a fresh image cost %d requests", c.requests)
			}
		}
		decisions, err := n.decisions(mark, "Fresh")
		if err != nil {
			return err
		}
		if len(decisions) != rounds {
			return fmt.Errorf("the log tells of %d decisions on fresh images, want %d", len(decisions), rounds)
		}
		took := medianOf(decisions, func(d time.Duration) time.Duration { return d })
		lines = append(lines, line{what: "… the decision in it, by the daemon's log", ours: span(took), reach: "≤ 120 µs"})
		return nil
	})
	return lines, err
}
