// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/transfer"
)

// maxWalks bounds how often a request begins anew because its image was removed, or its answer
// outdated.
const maxWalks = 3

// errRemoved ends a request whose image is removed each time.
var errRemoved = errors.New("the image was removed from the node again and again, while it was pulled or checked")

// walk takes a request from step to step, and from the first one again where its image was
// removed meanwhile, or where its only name has been given to another one: registries,
// verifiers, and the comparison of an image take their time. No success is one with an image
// that is gone. So it is where a later answer was acted upon meanwhile: see newest. The last time
// the request's own answer counts, whatever others are told: a registry may show callers different
// images by one tag. It reports whether the request shared the check of an equal one.
func (e *Engine) walk(ctx context.Context, t task, begun course) (c course, coalesced bool) {
	for n := range maxWalks {
		t.insists = n == maxWalks-1
		c, coalesced = e.walkOnce(ctx, t, begun)
		t.heard, begun.heard, begun.overdue = c.heard, c.heard, c.overdue
		gone, err := e.hasGone(ctx, t, c)
		if err != nil {
			return c.ended(failed(ReasonInternal, err)), coalesced
		}
		if !gone {
			return c, coalesced
		}
	}
	if errors.Is(c.end.cause, errOutdated) { // a pull in the background that others have begun
		return c, coalesced
	}
	return c.ended(failed(ReasonInternal, errRemoved)), coalesced
}

// hasGone reports whether a request has ended with an image that is not on the node any
// more, or has failed at nothing but that, or at an answer that is outdated.
func (e *Engine) hasGone(ctx context.Context, t task, c course) (bool, error) {
	if c.end.kind == Failed {
		return errors.Is(c.end.cause, transfer.ErrGone) || errors.Is(c.end.cause, errOutdated), nil
	}
	return e.isGone(ctx, t, c.end.digest)
}

// isGone reports whether an image is not on the node any more. One that is there by its
// digest is not gone, whatever became of the tag: another pull may have moved that.
func (e *Engine) isGone(ctx context.Context, t task, target digest.Digest) (bool, error) {
	switch _, err := e.pulledRecord(ctx, t, target); {
	case errors.Is(err, transfer.ErrGone):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read the image record: %w", err)
	}
	return false, nil
}

// orGone makes the error of looking into an image on the node one that begins the request
// anew, where the image has gone, and its content with it.
func (e *Engine) orGone(ctx context.Context, t task, target digest.Digest, err error) error {
	if gone, _ := e.isGone(ctx, t, target); gone {
		return fmt.Errorf("%w: %w", transfer.ErrGone, err)
	}
	return err
}
