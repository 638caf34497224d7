// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/store"
)

// lookInterval is how long a request, whose deadline is over, waits until it looks again for an image that others have
// brought, and for a place for its pull in the background.
const lookInterval = time.Second

// pullWithin pulls what a registry has in the place of the cached image, and ends the
// request with the cached image when that takes too long. The pull belongs to the engine
// then. It ends the check.
func (e *Engine) pullWithin(ctx context.Context, t task, k checked, c course, action Action) course {
	if e.dry {
		return e.finish(ctx, t, k, e.foreseeWithin(ctx, t, k, c, action))
	}
	if longest, _ := action.Within.Bound(); c.overdue.IsZero() {
		c.overdue = time.Now().Add(longest)
	}
	if err := e.complete(ctx, t, c.local, ifFree); err != nil {
		return e.finish(ctx, t, k, c.ended(failed(ReasonCanceled, err)))
	}
	w := pullWait{task: t, checked: k, reason: action.Reason}
	for !c.over() {
		c = e.waitForPull(ctx, &w, c)
	}
	return e.finish(ctx, t, w.checked, c)
}

// pullWait is a request that waits for a pull, or for several, one after the other.
type pullWait struct {
	task
	checked
	reason Reason
}

// waitForPull waits for one pull: that of equal requests, or one that it begins. The
// course goes on where the pull of others did not bring what is needed.
func (e *Engine) waitForPull(ctx context.Context, w *pullWait, c course) course {
	t := w.task
	p, added := e.pulls.join(t.pullKey(c.answer.verified.Digest), func(p *sharedPull) bool {
		own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		p.cancel, p.answer = cancel, c.answer
		k := w.share(c)
		if !e.detached.start(own, func(ctx context.Context) { e.runShared(ctx, t, k, w.reason, p) }) {
			k.end()
			return false
		}
		return true
	})
	if p == nil { // the daemon stops
		return e.pull(ctx, t, c, w.reason, w.session)
	}
	if !added { // whoever began it may have been told so before the tag was elsewhere for a while
		p.answer.renew(c.answer)
	}
	look := time.NewTimer(time.Until(c.overdue)) // it ends at once for who waits for another pull by then
	defer look.Stop()
	kept := false
	for {
		select {
		case <-p.done:
			return e.pullEnded(ctx, w, c, p, added)
		case <-ctx.Done():
			e.pulls.leave(p)
			return c.ended(failed(ReasonCanceled, ctx.Err()))
		case <-look.C:
			look.Reset(lookInterval)
		}
		found, ok := e.useArrived(ctx, w, c, p)
		c.heard = found.heard
		if !ok && !kept && e.pulls.keep(p, t.place(w.session)) {
			kept = true
			found, ok = e.useOverdue(ctx, t, c)
		}
		if ok {
			e.pulls.leave(p)
			return found
		}
	}
}

// pullEnded goes on after a pull, which the request began or has joined. Each request that waited
// takes a failure as its own, and may use the cached image. After a pull that another request
// began it decides anew about the image that is there now, by the answer of its own check.
func (e *Engine) pullEnded(ctx context.Context, w *pullWait, c course, p *sharedPull, began bool) course {
	t := w.task
	switch {
	case p.cause != nil && began:
		return e.fallBackShared(ctx, t, p.course, takeTurn, p.cause)
	case p.cause != nil:
		return e.fallBackShared(ctx, t, c, takeTurn, p.cause)
	case began:
		return p.course
	case p.course.end.kind == Failed: // at nothing that a registry did
		return c
	}
	local, err := e.inspect(ctx, t)
	if err != nil {
		return c.ended(failed(ReasonInternal, err))
	}
	return e.reuseJoined(ctx, w, c, local)
}

// reuseJoined reuses the image that a pull of others has brought, or goes on where that is none of what its own check was
// told. What is to be read of it for the caller is read without a turn, as where the image was there: nothing is pulled.
func (e *Engine) reuseJoined(ctx context.Context, w *pullWait, c course, local Local) course {
	t, check := w.task, c.answer.check(NotConfirmed)
	t.heard = c.heard
	c.saw(local)
	action := Decide(t.directives.Directives, local, check)
	if action.Do != Reuse {
		return c
	}
	found := local
	found.Grant = local.Grant.after(check)
	if t.asksForFound(found) {
		read, over := e.readUnread(ctx, t, c, w.session, found.Grant.Given())
		if over {
			return read
		}
		c, t.heard = read, read.heard
		same, err := e.lookAgain(ctx, t, &c)
		if err != nil {
			return c.ended(failed(ReasonInternal, err))
		}
		if !same {
			return c
		}
	}
	c.use(action.Used...)
	return e.unchanged(ctx, t, c, action, takeTurn, t.names(c.answer.verified.Digest)...)
}

// useArrived ends a request, which has waited long enough, with the image that its own check was told, where others have
// brought that while its pull stands in the line. It takes no turn, so that it leaves alone what would have to be unpacked
// in one. A pull that has its turn makes of the image what the request needs.
func (e *Engine) useArrived(ctx context.Context, w *pullWait, c course, p *sharedPull) (_ course, ok bool) {
	if !e.pulls.isInLine(p) {
		return c, false
	}
	t := w.task
	t.heard = c.heard
	local, err := e.inspect(ctx, t)
	if err != nil || local.incomplete && w.restricted() {
		return c, false
	}
	c = e.reuseJoined(ctx, w, c, local)
	return c, c.over()
}

// useOverdue ends a request with the cached image, if that would still do at this moment.
func (e *Engine) useOverdue(ctx context.Context, t task, c course) (_ course, ok bool) {
	t.heard = c.heard
	local, err := e.inspect(ctx, t)
	if err != nil {
		return c, false
	}
	local.incomplete = local.incomplete && !e.dry // a dry run has completed nothing
	c.saw(local)
	action := decideOverdue(t.directives.Directives, local, c.answer.check(NotConfirmed))
	if action.Do != Reuse || action.Reason != ReasonPullDeadline {
		return c, false
	}
	c.use(action.Used...)
	if c = c.ended(e.reuse(ctx, t, c, action, ifFree)); c.end.kind != UsedCached {
		return c, false // an image verifier refuses it: the new one is waited for
	}
	e.markStale(ctx, t, c, store.PullDeadline, c.answer.verified.At)
	return c, true
}

// decideOverdue decides again, where a pull has taken too long.
func decideOverdue(d policy.Directives, local Local, check Check) Action {
	check.Overdue = true
	return Decide(d, local, check)
}

// foreseeWithin foresees a pull with a deadline. How long it would take nobody knows,
// unless nothing is waited for.
func (e *Engine) foreseeWithin(ctx context.Context, t task, k checked, c course, action Action) course {
	if action.waitsForNothing() {
		if cached, ok := e.useOverdue(ctx, t, c); ok {
			return cached
		}
	} else {
		c.within = action.Within
	}
	return e.pull(ctx, t, c, action.Reason, k.session)
}
