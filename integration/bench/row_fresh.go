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
	const images, repositories, rounds = 100, 50, 50
	rules := "[[rule]]\nimages = ['" + registry + "/**']\npolicy = 'IfDigestChanged'\nmax_age = '1h'\n"
	err = b.withPair(ctx, options{rules: rules}, func(p *pair) error {
		ref, err := p.push(ctx, "app:1", resolvertest.Image(1, 1, 4096))
		if err != nil {
			return err
		}
		if err := p.fill(ctx, images, repositories); err != nil {
			return err
		}
		if err := p.both(func(n *benchNode) error { return n.pulls(ctx, 1, ref, ref) }); err != nil {
			return err
		}
		costs, err := p.alternate(rounds, func(n *benchNode) (cost, error) {
			return p.measure(func() error { return n.pulls(ctx, 1, ref) })
		})
		if err != nil {
			return err
		}
		lines = append(lines, compare(fmt.Sprintf("fresh hit: max_age 1h, %d other images on the node", images*repositories), "no request", costs))
		more, err := p.freshSeries(ctx, ref)
		lines = append(lines, more...)
		return err
	})
	return lines, err
}

// freshSeries asks pullwarden many times in a row.
func (p *pair) freshSeries(ctx context.Context, ref string) (lines []line, err error) {
	const rounds = 2000
	n := p.nodes[ours]
	mark := n.Mark()
	var all costs
	for range rounds {
		c, err := p.measure(func() error { return n.pulls(ctx, 1, ref) })
		if err == nil && c.requests > 0 {
			err = fmt.Errorf("a fresh image cost %d requests", c.requests)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	times, err := n.decisionTimes(mark, "Fresh")
	if err == nil && len(times) != rounds {
		err = fmt.Errorf("the log tells of %d decisions on fresh images, want %d", len(times), rounds)
	}
	if err != nil {
		return nil, err
	}
	took := medianOf(times, func(d time.Duration) time.Duration { return d })
	return []line{
		{what: fmt.Sprintf("… %d times in a row", rounds), ours: span(all.median().took)},
		{what: "… the decision in these, by the daemon's log", ours: span(took), reach: "≤ 120 µs"},
	}, nil
}
