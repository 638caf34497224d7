// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"

	"github.com/pullwarden/pullwarden/store"
)

// act follows a check: the cached image is reused, or another one pulled. Where
// the registry denies the caller in another request meanwhile, its answer to
// this one is no proof.
func (e *Engine) act(ctx context.Context, t task, k checked) course {
	defer k.watch.end()
	if k.session == nil {
		return k.course
	}
	defer k.session.Close()
	c := e.follow(ctx, t, k)
	// A pull that failed may have written a proof before. The refusals of this very
	// request have taken it away already.
	for _, w := range k.watch {
		if !slices.Contains(c.answer.proved, w.holder) {
			continue
		}
		others := w.refusals()
		if slices.Contains(t.refused(), w.holder) {
			others = w.refusals(c.refusals...)
		}
		if len(others) == 0 {
			continue
		}
		if err := e.revoke(ctx, t, []store.Fingerprint{w.holder}, others); err != nil {
			return c.ended(failed(ReasonInternal, err))
		}
	}
	return c
}

// follow applies the decision that follows from a registry's answer.
func (e *Engine) follow(ctx context.Context, t task, k checked) course {
	c := k.course
	if k.err != nil {
		return e.fallBack(ctx, t, c, checking, k.err)
	}
	tag := c.answer
	check := Check{Digest: tag.verified.Digest, OriginFailed: tag.originFailed}
	action := Decide(t.directives.Directives, c.local, check)
	if action.Do == AskCached {
		var stop *end
		if c.cached, stop = e.askCached(ctx, t, &c, k.watch); stop != nil {
			return c.ended(*stop)
		}
		check.Cached = c.cached
		action = Decide(t.directives.Directives, c.local, check)
	}
	if action.Do == Reuse {
		same, err := e.lookAgain(ctx, t, &c)
		if err == nil && same && action.Kind == Present {
			err = e.authorizeAgain(ctx, t, &c) // somebody may have proved that it is theirs
		}
		if err != nil {
			return c.ended(failed(ReasonInternal, err))
		}
		if !same {
			// The registry said nothing of another image that is cached now.
			c.answer, c.cached, check.Cached = tag, NotConfirmed, NotConfirmed
		}
		action = Decide(t.directives.Directives, c.local, check)
	}
	c.use(action.Used...)
	target := c.local.target()
	switch {
	case action.Do != Reuse:
		return e.pull(ctx, t, c, action.Reason, k.session)
	case action.Kind == Present:
		return c.ended(e.reuse(ctx, t, c.local, action, takeTurn))
	case check.Cached == Confirmed:
		return e.unchanged(ctx, t, c, action, takeTurn, t.canonical(target))
	}
	return e.unchanged(ctx, t, c, action, takeTurn, t.names(target)...)
}

// lookAgain looks for the cached image after a registry was asked, which takes
// time: it may have been removed or replaced meanwhile, by the same one from hosts that
// are not allowed here. It reports whether the image is the same; if not, the course has
// the one that there is now.
func (e *Engine) lookAgain(ctx context.Context, t task, c *course) (same bool, err error) {
	record, err := e.Records.Get(ctx, t.Name)
	if err == nil && record.Target.Digest == c.local.target() && t.foreign(record.State) == c.local.ForeignSource {
		if id, err := t.Runtime.ImageID(ctx); err == nil && id == c.local.ImageID {
			return true, nil
		}
	}
	local, err := e.inspect(ctx, t)
	if err != nil {
		return false, err
	}
	c.saw(local)
	return false, nil
}

// authorizeAgain finds out anew, after a registry was asked, whether the caller may reuse
// the cached image: another request may have given a proof, or taken one away.
func (e *Engine) authorizeAgain(ctx context.Context, t task, c *course) (err error) {
	by := e.trusted(ctx, t)
	c.local.Grant, _, err = e.authorize(ctx, t, c.local.Record, by)
	c.local.Age = ageOf(c.local.Record.State, e.Now(), by.checks) // asking may have taken long
	return err
}
