// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// hang asks a registry that takes requests and does not answer, with the image
// on the node.
func hang(ctx context.Context, b *bench) (lines []line, err error) {
	const others, limit = 99, 35 * time.Second
	rules := "[[rule]]\nimages = ['**']\npolicy = 'IfDigestChanged'\nverify_timeout = '2s'\n"
	err = b.withPair(ctx, options{rules: rules}, func(p *pair) error {
		ref, err := p.push(ctx, "app:1", resolvertest.Image(1, 1, 4096))
		if err != nil {
			return err
		}
		if err := p.both(func(n *benchNode) error { return n.pulls(ctx, 1, ref, ref) }); err != nil {
			return err
		}
		p.origin.Hang(resolvertest.All)
		n := p.nodes[ours]
		first, err := p.measure(func() error { return n.pulls(ctx, 1, ref) })
		if err != nil {
			return err
		}
		var after costs
		for range others {
			c, err := p.measure(func() error { return n.pulls(ctx, 1, ref) })
			if err != nil {
				return err
			}
			after = append(after, c)
		}
		theirs, err := p.bounded(ctx, p.nodes[stock], ref, limit)
		if err != nil {
			return err
		}
		const what = "hanging registry, image cached, verify_timeout 2s: "
		lines = append(lines,
			line{what: what + "first pod", stock: theirs, ours: span(first.took), reach: "verify_timeout"},
			line{what: fmt.Sprintf("… the %d pods after it, median", others), stock: theirs, ours: span(after.median().took), reach: "< 5 ms"},
			line{what: "… the slowest of them", stock: theirs, ours: span(after.slowest()), reach: "< 5 ms"})
		return nil
	})
	return lines, err
}

// bounded pulls once, and waits for that no longer than limit. It returns the
// cell of the table. That a pull gave up is no error of the bench.
func (p *pair) bounded(ctx context.Context, n *benchNode, ref string, limit time.Duration) (string, error) {
	bound, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	_, err := n.pull(bound, ref)
	took := time.Since(began)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return span(took), nil
	case bound.Err() != nil, status.Code(err) == codes.DeadlineExceeded:
		return fmt.Sprintf("> %.0f s", limit.Seconds()), nil
	}
	return "fails after " + span(took), nil
}
