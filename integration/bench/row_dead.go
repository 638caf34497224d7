// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// dead has a mirror in front of the registry that is down without a word.
func dead(ctx context.Context, b *bench) (lines []line, err error) {
	for _, death := range []struct {
		what string
		kill func(*resolvertest.Registry) error
	}{
		{"mirror that swallows packets", (*resolvertest.Registry).Swallow},
		{"mirror that accepts and hangs", func(r *resolvertest.Registry) error {
			r.Hang(resolvertest.All)
			return nil
		}},
	} {
		err = b.withPair(ctx, options{mirror: true}, func(p *pair) error {
			more, err := p.dead(ctx, death.what, death.kill)
			lines = append(lines, more...)
			return err
		})
		if err != nil {
			return lines, err
		}
	}
	return lines, nil
}

func (p *pair) dead(ctx context.Context, what string, kill func(*resolvertest.Registry) error) (lines []line, err error) {
	const limit, layers, colds = 60 * time.Second, 7, 5
	cached, err := p.push(ctx, "cached:1", resolvertest.Image(1, 1, 4096))
	if err != nil {
		return nil, err
	}
	var absent []string // a new image for each pull
	for i := range colds {
		ref, err := p.push(ctx, fmt.Sprintf("absent:%d", i), resolvertest.Image(int64(i)+2, layers, 64<<10))
		if err != nil {
			return nil, err
		}
		absent = append(absent, ref)
	}
	if err := p.both(func(n *benchNode) error { return n.pulls(ctx, 1, cached, cached) }); err != nil {
		return nil, err
	}
	if err := kill(p.mirror); err != nil {
		return nil, err
	}

	first, after, err := p.checksPastDeadMirror(ctx, cached)
	if err != nil {
		return nil, err
	}
	pulls, err := p.pullsPastDeadMirror(ctx, absent)
	if err != nil {
		return nil, err
	}

	// Stock waits most of the time, so it may do both at once.
	var check string
	ended := make(chan error)
	go func() {
		var err error
		check, err = p.bounded(ctx, p.nodes[stock], cached, limit)
		ended <- err
	}()
	pull, err := p.bounded(ctx, p.nodes[stock], absent[0], limit)
	if err = errors.Join(err, <-ended); err != nil {
		return nil, err
	}
	return []line{
		{what: what + ": first warm check", stock: check, ours: span(first.took), reach: "paid once"},
		{what: "… the warm checks after it", stock: check, ours: span(after.median().took), reach: "≤ 22 ms"},
		{what: fmt.Sprintf("… cold pull of %d layers, nothing known of the mirror", layers), stock: pull, ours: span(pulls.median().took), reach: "< 3 s"},
	}, nil
}

// checksPastDeadMirror measures checks by pullwarden: the first, and those
// after it.
func (p *pair) checksPastDeadMirror(ctx context.Context, cached string) (first cost, after costs, err error) {
	check := func() (cost, error) {
		return p.measure(func() error { return p.nodes[ours].pulls(ctx, 1, cached) })
	}
	if first, err = check(); err != nil {
		return first, nil, err
	}
	for range 25 {
		c, err := check()
		if err != nil {
			return first, nil, err
		}
		after = append(after, c)
	}
	return first, after, nil
}

// pullsPastDeadMirror measures pulls by pullwarden when it knows nothing of the
// mirror.
func (p *pair) pullsPastDeadMirror(ctx context.Context, absent []string) (pulls costs, err error) {
	n := p.nodes[ours]
	for _, ref := range absent {
		if err := n.Restart(ctx); err != nil { // it forgets that the mirror is dead
			return nil, err
		}
		c, err := p.measure(func() error { return n.pulls(ctx, 1, ref) })
		if err != nil {
			return nil, err
		}
		pulls = append(pulls, c)
	}
	return pulls, nil
}
