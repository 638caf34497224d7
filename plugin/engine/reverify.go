// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// reverify takes the bytes of an image that is here once more, from a source
// that has allowed hosts only, and compares them. The verifiers are asked before, as before a
// pull: one that refuses the image spares the bytes.
func (e *Engine) reverify(ctx context.Context, t task, c course, action Action, source resolver.Source) (course, error) {
	a := c.answer
	if err := e.agree(ctx, t, c.local); err != nil {
		return c.ended(failed(ReasonVerifier, err)), nil
	}
	c.local.agreed = true
	if err := e.verifyContent(ctx, t, a, source); err != nil {
		return c, e.orGone(ctx, t, a.descriptor.Digest, err)
	}
	c.local.compare()
	a.actUpon()
	if c = c.ended(e.reuse(ctx, t, c.local, action, hasTurn)); c.end.kind == Failed {
		return c, nil
	}
	target, served := a.verified.Digest, source.Served()
	e.markPulled(ctx, target, t.names(target), func(before store.State) store.State { // with the checks that were made meanwhile
		return e.pulledState(a, transfer.WithCompared(store.State{
			Verified: before.Verified, MirrorDigest: before.MirrorDigest, Stale: before.Stale,
			Access: before.Access, Earlier: before.Earlier,
		}, served))
	})
	c.end.source = transfer.WithCompared(store.State{}, served).PullSource
	return c, nil
}

// verifyContent takes every byte of an image that is here from the source.
func (e *Engine) verifyContent(ctx context.Context, t task, a answer, source resolver.Source) error {
	fetcher, err := source.Fetcher(ctx, t.Name)
	if err != nil {
		return err
	}
	if err := e.Content.VerifyContent(ctx, a.descriptor, fetcher); err != nil {
		return err
	}
	return e.endRefused(ctx, t, a.watch, source)
}
