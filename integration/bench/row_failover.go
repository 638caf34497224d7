// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// failover checks an image after all connections to the registry have died without a
// word, as a load balancer leaves them that has failed over.
func failover(ctx context.Context, b *bench) (lines []line, err error) {
	for _, kind := range []struct {
		what  string
		http1 bool
	}{{"HTTP/2", false}, {"HTTP/1.1 alone", true}} {
		err = b.withPair(ctx, options{http1: kind.http1}, func(p *pair) error {
			first, later, err := p.failovers(ctx)
			if err != nil {
				return err
			}
			lines = append(lines,
				first.line("dead connections: first warm check after a failover that swallows what comes on old ones; registry with "+kind.what, "≤ 82 ms"),
				later.line("… the one after it", "≤ 22 ms"))
			return nil
		})
		if err != nil {
			return lines, err
		}
	}
	return lines, nil
}

// failovers measures the first check after a failover, and the one after it.
func (p *pair) failovers(ctx context.Context) (first, later attempts, err error) {
	const pods, rounds, limit = 8, 5, 35 * time.Second
	var images []pushed
	for i := range pods {
		image, err := p.pushImage(ctx, fmt.Sprintf("app-%d:1", i), resolvertest.Image(int64(i), 1, 4096))
		if err != nil {
			return first, later, err
		}
		images = append(images, image)
	}
	for range rounds {
		err = p.both(func(n *benchNode) error {
			if err := n.reconnect(ctx, images); err != nil {
				return err
			}
			p.origin.KillConnections()
			for _, to := range []*attempts{&first, &later} {
				bound, cancel := context.WithTimeout(ctx, limit)
				c, err := p.measure(func() error { return n.pullRight(bound, 1, images[0]) })
				cancel()
				if ctx.Err() != nil {
					return ctx.Err()
				}
				to.add(n.side, c, err)
			}
			return nil
		})
		if err != nil {
			return first, later, err
		}
	}
	return first, later, nil
}

// reconnect asks for all images at once, so that there are several connections; where
// those of the last failover are still in the way, on a daemon that has just started.
func (n *benchNode) reconnect(ctx context.Context, images []pushed) error {
	if err := n.pullRight(ctx, len(images), images...); err == nil {
		return nil
	}
	if err := n.Restart(ctx); err != nil {
		return err
	}
	return n.pullRight(ctx, len(images), images...)
}

// attempts are what was tried on both sides, some of which failed.
type attempts struct {
	all    [2]costs
	failed [2]int
}

func (a *attempts) add(s side, c cost, err error) {
	a.all[s] = append(a.all[s], c)
	if err != nil {
		a.failed[s]++
	}
}

// line is that of the medians; where some failed, it says how many.
func (a *attempts) line(what, reach string) line {
	l := compare(what, reach, a.all)
	for s, cell := range map[side]*string{stock: &l.stock, ours: &l.ours} {
		if a.failed[s] > 0 {
			*cell += fmt.Sprintf(" (%d of %d fail)", a.failed[s], len(a.all[s]))
			l.ratio = ""
		}
	}
	return l
}
