// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// warm asks for an unchanged image under Always.
func warm(ctx context.Context, b *bench) (lines []line, err error) {
	for _, images := range [][]string{nil, {discardLayers}} {
		err = b.withPair(ctx, options{images: images}, func(p *pair) error {
			costs, bare, err := p.checks(ctx, 50)
			if err != nil {
				return err
			}
			what := fmt.Sprintf("warm check: unchanged image of %d layers, policy Always", layers)
			lines = append(lines, compare(with(what, images), "≥ 5×; ≤ 22 ms; 1 request", costs))
			if images == nil {
				lines = append(lines, line{what: "… for comparison, a bare HEAD with a token on an open connection", ours: span(bare.median().took)})
			}
			return nil
		})
		if err != nil {
			break
		}
	}
	return lines, err
}

// checks pulls an image on both nodes, and then asks for it again that often,
// with a bare request after each turn.
func (p *pair) checks(ctx context.Context, rounds int) (all [2]costs, bare costs, err error) {
	const repository, tag = "app", "1"
	ref, err := p.push(ctx, repository+":"+tag, resolvertest.Image(1, layers, 4096))
	if err != nil {
		return all, nil, err
	}
	var ids [2]string
	err = p.both(func(n *benchNode) (err error) {
		ids[n.side], err = n.pull(ctx, ref)
		return err
	})
	if err == nil && ids[stock] != ids[ours] {
		err = fmt.Errorf("the image IDs of %s differ: %s", ref, ids)
	}
	if err != nil {
		return all, nil, err
	}
	plain, err := newBare(ctx, p.origin, repository, tag)
	if err != nil {
		return all, nil, err
	}
	defer plain.close()
	all, err = p.alternate(rounds, func(n *benchNode) (cost, error) {
		c, err := p.measure(func() error {
			id, err := n.pull(ctx, ref)
			if err == nil && id != ids[n.side] {
				err = fmt.Errorf("%s: the unchanged image %s was %s and is %s", n.side, ref, ids[n.side], id)
			}
			return err
		})
		if err == nil && c.requests == 0 {
			err = fmt.Errorf("%s: a check of %s without a request", n.side, ref)
		}
		if err == nil && n.side == ours { // whose turn is the last
			err = plain.ask(ctx)
		}
		return c, err
	})
	return all, plain.all, err
}
