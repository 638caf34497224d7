// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"golang.org/x/sync/errgroup"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// benchNode is the node of one side.
type benchNode struct {
	*node.Node
	side    side
	touched int // how often
}

// start configures the registries and starts the daemon.
func (n *benchNode) start(ctx context.Context, p *pair, rules string) error {
	var mirrors []*resolvertest.Registry
	if p.mirror != nil {
		mirrors = append(mirrors, p.mirror)
	}
	err := n.Serve(registry, p.origin, mirrors...)
	if err == nil && rules != "" {
		err = n.WriteRules("bench.toml", rules)
	}
	if err == nil {
		err = n.Start(ctx)
	}
	return err
}

// pull asks CRI for an image, as a kubelet does. It returns the image ID.
func (n *benchNode) pull(ctx context.Context, ref string) (id string, err error) {
	id, err = n.Pull(ctx, ref, node.Credentials(user, password))
	if err != nil {
		return "", fmt.Errorf("%s: pull %s: %w", n.side, ref, err)
	}
	if id == "" {
		return "", fmt.Errorf("%s: pull %s: no image ID", n.side, ref)
	}
	return id, nil
}

// pulls asks for several images, or for one several times, that many at a time.
func (n *benchNode) pulls(ctx context.Context, atATime int, refs ...string) error {
	results := make(chan error)
	queue := make(chan string)
	for range atATime {
		go func() {
			for ref := range queue {
				_, err := n.pull(ctx, ref)
				results <- err
			}
		}()
	}
	go func() {
		defer close(queue)
		for _, ref := range refs {
			queue <- ref
		}
	}()
	var errs []error
	for range refs {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

// pullRight asks for several images, that many at a time. Each must be the one that was
// pushed.
func (n *benchNode) pullRight(ctx context.Context, atATime int, images ...pushed) error {
	pods, ctx := errgroup.WithContext(ctx)
	pods.SetLimit(atATime)
	for _, image := range images {
		pods.Go(func() error {
			id, err := n.pull(ctx, image.ref)
			if err == nil && id != image.id {
				err = fmt.Errorf("%s: %s is %s in the registry, and %s after a pull", n.side, image.ref, image.id, id)
			}
			return err
		})
	}
	return pods.Wait()
}

// forget removes an image, and waits until its content is gone as well.
func (n *benchNode) forget(ctx context.Context, ref string) error {
	if err := n.Remove(ctx, ref); err != nil {
		return fmt.Errorf("%s: remove %s: %w", n.side, ref, err)
	}
	return n.Until(ctx, "the content of "+ref+" is gone", func(ctx context.Context) error {
		left := 0
		err := n.Client.ContentStore().Walk(ctx, func(content.Info) error { left++; return nil })
		if err == nil && left > 0 {
			err = fmt.Errorf("%d blobs are left: %w", left, errdefs.ErrAlreadyExists)
		}
		return err
	})
}

// decisionTimes returns how long pullwarden says that each of its decisions with
// that outcome took, since the mark.
func (n *benchNode) decisionTimes(since node.Mark, outcome string) ([]time.Duration, error) {
	decisions, err := n.Decisions(since, "")
	if err != nil {
		return nil, err
	}
	var all []time.Duration
	for _, d := range decisions {
		if d.Outcome != outcome {
			continue
		}
		took, err := time.ParseDuration(d.Elapsed)
		if err != nil {
			return nil, fmt.Errorf("the log says that a decision took %q: %w", d.Elapsed, err)
		}
		all = append(all, took)
	}
	return all, nil
}
