// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"time"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// act follows a check: the cached image is reused, or another one pulled, or a registry is
// asked again.
func (e *Engine) act(ctx context.Context, t task, k checked) course {
	for k.session != nil {
		t.heard = k.heard
		c, action, again := e.follow(ctx, t, k)
		t.heard = c.heard
		if again {
			k = e.checkAgain(ctx, t, k, c)
			continue
		}
		if c.over() {
			return e.finish(ctx, t, k, c)
		}
		if _, bounded := action.Within.Bound(); bounded {
			return e.pullWithin(ctx, t, k, c, action)
		}
		return e.finish(ctx, t, k, e.pull(ctx, t, c, action.Reason, k.session))
	}
	k.end()
	return k.course
}

// checkAgain ends a check that was not acted upon, and makes another one in its place: what
// that is told, of the image that is here then too, is its own.
func (e *Engine) checkAgain(ctx context.Context, t task, k checked, c course) checked {
	k.end()
	c.answer, c.attempts, c.cached = answer{}, nil, NotAsked
	c.checkTime = c.waited // it has a time of its own
	return e.check(ctx, t, c)
}

// finish ends a check that was acted upon with that course. Where the registry has
// denied the caller in another request meanwhile, its answer to this one is no proof.
func (e *Engine) finish(ctx context.Context, t task, k checked, c course) course {
	defer k.end()
	// A pull that failed may have written a proof before.
	if err := e.revokeDenied(ctx, t, &c.answer, c.refusals); err != nil {
		return c.ended(failed(ReasonInternal, err))
	}
	return c
}

// revokeDenied takes away the proofs of an answer whose holders were denied in other
// requests since it was asked for. What those gave since stays: a host may have said yes after it
// had refused. The request's own refusals have ended its proof already. The error is one of writing
// that.
func (e *Engine) revokeDenied(ctx context.Context, t task, a *answer, own []store.Refusal) error {
	for _, w := range a.watch {
		if !slices.Contains(a.proved, w.holder) {
			continue
		}
		others := w.refusals()
		if slices.Contains(t.refused(), w.holder) {
			others = w.refusals(own...)
		}
		if len(others) == 0 {
			continue
		}
		for i := range others {
			others[i].Only = a.proof()
		}
		if err := e.revoke(ctx, t, []store.Fingerprint{w.holder}, others); err != nil {
			return err
		}
	}
	return nil
}

// follow applies the decision that follows from a registry's answer, but for a pull:
// then the course has not ended. Nor has it where a registry is to be asked again.
func (e *Engine) follow(ctx context.Context, t task, k checked) (_ course, action Action, again bool) {
	c := k.course
	if k.err != nil {
		ended := e.fallBack(ctx, t, c, checking, takeTurn, k.err)
		if k.unasked {
			ended.heard = c.heard // no registry has failed, though that is decided as if one had answered
		}
		if k.unasked && ended.end.kind == Failed && ctx.Err() == nil {
			// The image has gone, or the caller's proof of it, or a verifier refuses it.
			c.saw(ended.local)
			c.mustAsk = true
			return c, action, true
		}
		return ended, action, false
	}
	action, stop := e.judge(ctx, t, &c, k)
	if stop != nil {
		return c.ended(*stop), action, false
	}
	t.heard = c.heard
	if action.Do == Reuse && c.cached == NotAsked && e.blocked(ctx, t, &c.local) {
		c.use(action.Used...)
		return c, Action{Do: Pull, Kind: Pulled, Reason: ReasonAbsent}, false
	}
	if action.Do == Reuse && c.isUnread() {
		var over bool
		if c, over = e.readUnread(ctx, t, c, k.session, false); over {
			return c, action, false
		}
		t.heard = c.heard
	}
	if action.Do == Reuse {
		var err error
		if action, again, err = e.decideAgain(ctx, t, k, &c, action); err != nil {
			return c.ended(failed(ReasonInternal, err)), action, false
		}
		if again {
			return c, action, true
		}
	}
	c.use(action.Used...)
	target := c.local.target()
	switch {
	case action.Do != Reuse:
		return c, action, false
	case action.Kind == Present:
		return c.ended(e.reuse(ctx, t, c, action, takeTurn)), action, false
	case c.cached == Confirmed:
		return e.unchanged(ctx, t, c, action, takeTurn, t.canonical(target)), action, false
	}
	return e.unchanged(ctx, t, c, action, takeTurn, t.names(target)...), action, false
}

// decideAgain decides again to reuse the cached image, by what has become of that, and of the caller's
// right to it, while a registry was asked. Where it is not the same any more a registry is to be asked
// again, which was told of the one before.
func (e *Engine) decideAgain(ctx context.Context, t task, k checked, c *course, reuse Action) (action Action, again bool, err error) {
	tag, proved := k.answer, c.local.Grant.Given()
	same, err := e.lookAgain(ctx, t, c)
	if err == nil && same && (reuse.Kind == Present || k.watch.denied()) {
		err = e.authorizeAgain(ctx, t, c) // somebody may have proved that it is theirs, or been refused
	}
	if err != nil {
		return reuse, false, err
	}
	cached := c.cached
	if !same {
		// The registry said nothing of another image that is cached now, and is not asked.
		c.answer, c.cached, cached = tag, NotAsked, NotConfirmed
		c.answer.held = held{}
		c.answer.saw(c.local) // may be what the tag stands for
	}
	action = c.decide(t.directives.Directives, tag, cached)
	// The registry was told that nobody needs more than the digest, or another manifest
	// was read than the one that would run.
	digestOnly := tag.descriptor.Size == 0 || tag.descriptor.MediaType == ""
	unread := !c.local.Grant.Given()
	switch {
	case action.Do != Reuse:
		again = digestOnly
	case same:
		again = unread && proved
	default:
		again = unread || t.readsManifests()
	}
	return action, again, nil
}

// readUnread reads the manifest of the image that the tag stands for, as [course.isUnread] says.
// The course is over if that failed: as the pull fails where the image is not there. An open
// image that would do without the registry waits no longer for that than for the check, and a caller who has proved
// it, whom those hosts alone are asked for whose answers count.
func (e *Engine) readUnread(ctx context.Context, t task, c course, session resolver.Session, proved bool) (_ course, over bool) {
	within, local := time.Duration(0), c.local
	local.Grant = local.Grant.after(c.answer.check(NotAsked)) // a mirror's proof is none once the registry has answered
	if proved || fallbacks(t.directives.Directives, local, c.heard).Has(failure.Unreachable) {
		within = t.checkTimeAfter(c.checkTime)
	}
	begun := e.Now()
	stop, cause := e.readCached(ctx, t, &c, c.answer, session, within, proved)
	if within > 0 {
		c.checkTime += e.Now().Sub(begun)
	}
	switch {
	case stop != nil:
		return c.ended(*stop), true
	case cause != nil:
		return e.fallBack(ctx, t, c, pulling, takeTurn, cause), true
	}
	return c, false
}

// judge decides by a registry's answer about the reference. Where only the caller's
// right to the cached image is in doubt, it asks about that too, which may stop the
// request.
func (e *Engine) judge(ctx context.Context, t task, c *course, k checked) (action Action, stop *end) {
	tag := c.answer
	action = c.decide(t.directives.Directives, tag, NotAsked)
	if action.Do != AskCached {
		return action, nil
	}
	if c.cached, stop = e.askCached(ctx, t, c, k); stop != nil {
		return Action{}, stop
	}
	return c.decide(t.directives.Directives, tag, c.cached), nil
}

// lookAgain looks for the cached image after a registry was asked, which takes
// time: it may have been removed or replaced meanwhile, by the same one for somebody else, or from hosts
// that are not allowed here. It reports whether the image is the same; if not, the course has
// the one that there is now.
func (e *Engine) lookAgain(ctx context.Context, t task, c *course) (same bool, err error) {
	record, err := e.Records.Get(ctx, t.Name)
	if err == nil && c.local.isOf(record) && t.foreign(record.State) == c.local.ForeignSource {
		if id, err := t.Runtime.ImageID(ctx); err == nil && id == c.local.ImageID {
			record.Target = c.local.Record.Target // of the size that the content has
			c.local.Record = record               // with the marks of other requests
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
	c.local.Age = ageOf(c.local.Record.State, e.Now(), t.directives.CheckWith, by.checks) // asking may have taken long
	return err
}

// decide decides by an answer about the reference, and by one about the cached image.
func (c *course) decide(d policy.Directives, tag answer, cached Confirmation) Action {
	check := tag.check(cached)
	check.Elsewhere = c.endsOpen()
	return Decide(d, c.local, check)
}

// decideFailed decides after a failure. The caller's grant is the one that counts then: one that
// does not is as if there were none.
func (c *course) decideFailed(d policy.Directives, cause *resolver.Error) Action {
	check := Check{
		Class: cause.Class, Cached: c.cached, OriginFailed: c.originFailed(cause), Elsewhere: c.endsOpen(),
	}
	if c.originAnswered {
		c.local.Grant = c.local.Grant.withoutNeed()
	}
	c.local.Grant = c.local.Grant.after(check)
	action := Decide(d, c.local, check)
	c.use(action.Used...)
	return action
}
