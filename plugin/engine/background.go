// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
)

// runShared carries out a shared pull, and ends the check that it follows. If it was kept
// its end is told: nobody may wait for it any more.
func (e *Engine) runShared(ctx context.Context, t task, k checked, reason Reason, p *sharedPull) {
	start := e.Now()
	defer p.cancel(nil)
	c := e.pullShared(ctx, t, k, reason, p)
	if cause := context.Cause(ctx); c.end.kind == Failed && errors.Is(cause, errBackgroundLimit) {
		c = c.ended(failed(ReasonPull, cause))
		ctx = context.WithoutCancel(ctx)
	}
	if p.cause == nil {
		p.course = c
	}
	if !e.pulls.end(p) {
		return
	}
	e.pin(ctx, t, c)
	if e.Observe == nil {
		return
	}
	o := newOutcome(ctx, t, c)
	o.Background, o.Elapsed = true, e.Now().Sub(start)
	e.Observe(ctx, o)
}

// pullShared pulls in the turn of the name. Failures of registries are left, with their
// cause, to the requests that wait; but a denial takes the caller's proof away at once. The
// course that it returns is the end where no request waits.
func (e *Engine) pullShared(ctx context.Context, t task, k checked, reason Reason, p *sharedPull) course {
	c := k.course
	try := e.newTry(t, c.answer.verified.Digest)
	defer try.leave()
	ctx, unlock, err := e.turns.Lock(ctx, t.Name, e.Patience)
	if err != nil {
		return e.finish(ctx, t, k, c.ended(failed(ReasonCanceled, err)))
	}
	defer unlock()
	e.pulls.begin(p)
	c, cause := e.pullAtTurn(ctx, t, c, reason, k.session, try)
	if cause != nil {
		if ctx.Err() == nil { // else it has not failed those that wait, who go on by themselves
			p.course, p.cause = c, cause
		}
		c.failed(cause)
		c = c.ended(registryFailed(t, Local{}, pulling, cause, Reason(cause.Class)))
		if try.took { // who was refused has taken proofs away
			c.refusals = nil
		}
		if err := e.revokeIfDenied(ctx, t, nil, c.refusals); err != nil {
			p.cause = nil
			c = c.ended(failed(ReasonInternal, err))
		}
	}
	return e.finish(ctx, t, k, c)
}
