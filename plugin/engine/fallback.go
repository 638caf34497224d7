// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// fallBack ends a request after a registry failed in its check or its pull. A
// denial takes the caller's proof away first. Then Decide says whether the cached
// image ends the request, with a stale mark, or an error.
func (e *Engine) fallBack(ctx context.Context, t task, c course, phase string, turn turn, err error) course {
	var cause *resolver.Error
	if !errors.As(err, &cause) {
		return c.ended(failed(ReasonInternal, err))
	}
	c.failed(cause)
	if err := e.revokeIfDenied(ctx, t, nil, c.refusals); err != nil {
		return c.ended(failed(ReasonInternal, err))
	}
	c.deny(c.refusals...)
	return e.useCached(ctx, t, c, phase, turn, cause)
}

// fallBackShared is fallBack after another request's pull failed, which has taken proofs away as
// it was refused: what hosts have said since counts.
func (e *Engine) fallBackShared(ctx context.Context, t task, c course, turn turn, cause *resolver.Error) course {
	c.failed(cause)
	c.deny(c.refusals...) // they are of the same credentials
	c.refusals = nil
	return e.useCached(ctx, t, c, pulling, turn, cause)
}

// useCached ends a request that a registry has failed. The image is looked at as at the beginning: to ask takes time, and
// one that has been removed, or made again, may be none that can run.
func (e *Engine) useCached(ctx context.Context, t task, c course, phase string, turn turn, cause *resolver.Error) course {
	t.heard = c.heard
	if c.local.Usable() || phase == checking { // another request's pull may have brought one meanwhile
		local, err := e.inspect(ctx, t)
		if err != nil {
			return c.ended(failed(ReasonInternal, err))
		}
		c.saw(local)
	}
	action, failed := c.decideFailed(t.directives.Directives, cause), e.Now()
	if action.Do == Fail {
		return c.ended(registryFailed(t, c.local, phase, cause, action.Reason))
	}
	c = c.ended(e.reuse(ctx, t, c, action, turn).after(phase, cause))
	if c.end.kind != UsedCached {
		return c
	}
	e.markStale(ctx, t, c, store.StaleReason(cause.Class), failed)
	return c
}
