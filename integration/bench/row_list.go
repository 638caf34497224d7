// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/core/images"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
)

// list lists images, which pullwarden shows with annotations.
func list(ctx context.Context, b *bench) (lines []line, err error) {
	const count, rounds = 1000, 50
	err = b.withPair(ctx, options{}, func(p *pair) error {
		if err := p.fill(ctx, count, 1); err != nil {
			return err
		}
		same, err := p.alternate(rounds, func(n *benchNode) (cost, error) { return p.listing(ctx, n, count) })
		if err != nil {
			return err
		}
		changed, err := p.alternate(rounds, func(n *benchNode) (cost, error) {
			if err := n.touch(ctx); err != nil {
				return cost{}, err
			}
			return p.listing(ctx, n, count)
		})
		if err != nil {
			return err
		}
		for _, l := range []line{
			compare(fmt.Sprintf("listing %d images through CRI", count), "≥ 1×", same),
			compare("… each time after a change of an image", "≥ 1×", changed),
		} {
			l.requests, l.connections = "", ""
			lines = append(lines, l)
		}
		return nil
	})
	return lines, err
}

func (p *pair) listing(ctx context.Context, n *benchNode, count int) (cost, error) {
	var listed []*runtimeapi.Image
	c, err := p.measure(func() (err error) {
		listed, err = n.List(ctx)
		return err
	})
	if err != nil {
		return c, fmt.Errorf("%s: list the images: %w", n.side, err)
	}
	annotated := 0
	for _, image := range listed {
		if image.GetSpec().GetAnnotations()[node.LabelPrefix+"pull-source"] != "" {
			annotated++
		}
	}
	wantAnnotated := count
	if n.side == stock {
		wantAnnotated = 0
	}
	if len(listed) != count || annotated != wantAnnotated {
		return c, fmt.Errorf("%s lists %d images, %d of them with a source, want %d and %d", n.side, len(listed), annotated, count, wantAnnotated)
	}
	return c, nil
}

// touch changes the label of a record.
func (n *benchNode) touch(ctx context.Context) error {
	name := node.FilledRepository(registry, 0, 0) + ":1"
	n.touched++
	_, err := n.Client.ImageService().Update(ctx, images.Image{
		Name: name, Labels: map[string]string{"touched": fmt.Sprint(n.touched)},
	}, "labels.touched")
	if err != nil {
		return fmt.Errorf("%s: change %s: %w", n.side, name, err)
	}
	return nil
}
