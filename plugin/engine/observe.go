// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// lookLimit bounds how long a pull waits for the look at the node as it is before that
// pull. The look takes a few milliseconds.
const lookLimit = 50 * time.Millisecond

// pullObserved has containerd pull by itself, and observes the request beside that
// pull. It returns containerd's error. Nothing that the observation meets reaches the
// pull, not even a panic.
func (e *Engine) pullObserved(ctx context.Context, t task, c course) error {
	look, looked := context.WithTimeout(context.WithoutCancel(ctx), lookLimit)
	defer looked()
	pulled := make(chan PullEnd, 1)
	if e.detached.start(context.WithoutCancel(ctx), func(ctx context.Context) {
		seen := e.observe(ctx, look, looked, t, c)
		e.observePulled(ctx, t, seen, pulled)
	}) {
		<-look.Done()
	}
	err := t.Runtime.StockPull(ctx)
	if err != nil {
		pulled <- PullFailed
	} else {
		pulled <- PullSucceeded
	}
	return err
}

// observed is what an observation has found out.
type observed struct {
	outcome Outcome
	// answer is the registry's about the reference, which is true whatever would have
	// been decided; zero where there is none. watch looks out for denials since the
	// question, and has to be ended.
	answer   answer
	watch    denialWatches
	question *question // of the answer; it has to be ended
	// nested is the manifest that the check has read, too, if the answer is its index.
	nested resolver.Nested
}

// observe decides about a request, by the node as it is before the pull, which waits
// until looked is called or look has ended. It changes nothing but for a proof that a
// registry's denial ends.
func (e *Engine) observe(ctx, look context.Context, looked func(), t task, c course) (o observed) {
	defer looked()
	start := e.Now()
	if !e.observations.decide() {
		o.outcome = notObserved(ctx, t, ReasonBusy)
		return o
	}
	defer e.observations.decided()
	o.outcome = notObserved(ctx, t, ReasonInternal)
	protect(ctx, t, func() {
		c := c
		if !c.over() {
			local, err := e.inspect(look, t)
			if look.Err() != nil {
				o.outcome = notObserved(ctx, t, ReasonSlow)
				return
			}
			looked()
			c = e.foresee(ctx, t, c, local, err, &o)
		}
		if ctx.Err() != nil {
			o.outcome = notObserved(ctx, t, ReasonCanceled)
			return
		}
		o.outcome = newOutcome(ctx, t, c)
		o.outcome.Elapsed = e.Now().Sub(start)
	})
	return o
}

// notObserved is the outcome of a pull of which nobody knows what would have been
// decided.
func notObserved(ctx context.Context, t task, reason Reason) Outcome {
	return newOutcome(ctx, t, course{end: end{kind: NotObserved, reason: reason}})
}

// protect runs a step of an observation. A panic ends that step, and is logged.
func protect(ctx context.Context, t task, step func()) {
	defer func() {
		if r := recover(); r != nil {
			prefixlog.G(ctx).WithField("recovered", describeBug(r)).WithField("stack", string(debug.Stack())).
				Errorf("the observation of a pull of %q has ended by a bug, the pull goes on", t.Name)
		}
	}()
	step()
}

// describeBug says what was recovered from a panic. It is the runtime's own text: others
// may have anything in it, also a secret.
func describeBug(r any) string {
	if err, ok := r.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("a %T", r)
}

// foresee walks the way of a request up to what would be done for it. The error is
// that of the look at the node.
func (e *Engine) foresee(ctx context.Context, t task, c course, local Local, err error, o *observed) course {
	if err != nil {
		return c.ended(failed(ReasonInternal, err))
	}
	c.saw(local)
	if !t.asksAlways() {
		action := Decide(t.directives.Directives, local, Check{})
		c.use(action.Used...)
		if action.Do != Ask {
			return c.ended(e.wouldEnd(ctx, t, c, action))
		}
	}
	k := e.check(ctx, t, c)
	if k.unasked && ctx.Err() == nil && e.foreseeFailed(ctx, t, k.course, k.err).end.kind == Failed {
		k.mustAsk = true
		k = e.checkAgain(ctx, t, k, k.course)
	}
	c, o.watch, o.question = k.course, k.watch, k.question
	if k.session == nil {
		return c
	}
	defer k.session.Close()
	if k.err != nil {
		return e.foreseeFailed(ctx, t, c, k.err)
	}
	o.answer, o.nested = c.answer, nested(c.local)
	action, stop := e.judge(ctx, t, &c, k)
	if stop != nil {
		return c.ended(*stop)
	}
	c.use(action.Used...)
	return c.ended(e.wouldEnd(ctx, t, c, action))
}

// foreseeFailed foresees what follows a failed check, as fallBack does for requests
// that it ends. The image stays that of before the pull, which may have brought another
// one by now; only a proof that the failure has ended is looked for again.
func (e *Engine) foreseeFailed(ctx context.Context, t task, c course, err error) course {
	cause, ok := errors.AsType[*resolver.Error](err)
	if !ok {
		return c.ended(failed(ReasonInternal, err))
	}
	c.failed(cause)
	if err := e.revokeIfDenied(ctx, t, nil, c.refusals); err != nil {
		return c.ended(failed(ReasonInternal, err))
	}
	c.deny(c.refusals...)
	t.heard = c.heard
	c.local.Age = ageOf(c.local.Record.State, e.Now(), t.directives.CheckWith, e.trusted(ctx, t).checks)
	if c.local.Usable() && len(c.refusals) > 0 {
		if err := e.authorizeAgain(ctx, t, &c); err != nil {
			return c.ended(failed(ReasonInternal, err))
		}
	}
	action := c.decideFailed(t.directives.Directives, cause)
	if action.Do == Fail {
		return c.ended(registryFailed(t, c.local, checking, cause, action.Reason))
	}
	return c.ended(e.wouldEnd(ctx, t, c, action).after(checking, cause))
}

// wouldEnd is how an action ends a request, if the pull goes well that it may take. A
// pull is said to be in time, unless nothing would be waited for.
func (e *Engine) wouldEnd(ctx context.Context, t task, c course, action Action) end {
	if action.waitsForNothing() {
		overdue := decideOverdue(t.directives.Directives, c.local, c.answer.check(NotConfirmed))
		if overdue.Do == Reuse && e.askVerifiers(ctx, t, c.local.Record.Target) == nil {
			return reused(overdue, c.local)
		}
	}
	switch action.Do {
	case Fail:
		return failed(action.Reason, t.errNever())
	case Reuse, Reverify:
		if err := e.agree(ctx, t, c.local); err != nil {
			return failed(c.local.reasonRefused(c.answer.verified.Digest == c.local.target()), err)
		}
	}
	if action.Do == Reuse {
		return reused(action, c.local)
	}
	return end{kind: Pulled, reason: action.Reason, digest: c.answer.verified.Digest}
}

// observePulled waits for the end of the pull, records what the registry has said, and
// tells the outcome.
func (e *Engine) observePulled(ctx context.Context, t task, o observed, pulled <-chan PullEnd) {
	defer o.watch.end()
	if o.question != nil {
		defer o.question.end()
	}
	select {
	case o.outcome.StockPull = <-pulled:
	case <-ctx.Done():
		select {
		case o.outcome.StockPull = <-pulled:
		default:
		}
	}
	ctx = context.WithoutCancel(ctx) // the rest is quick, and true
	if o.outcome.StockPull == PullSucceeded {
		protect(ctx, t, func() { e.recordObserved(ctx, t, o) })
	}
	if e.Observe != nil {
		protect(ctx, t, func() { e.Observe(ctx, o.outcome) })
	}
}

// recordObserved records that a registry has confirmed the digest that containerd has
// pulled, and to whom. Nothing is recorded of another digest. Of the same one containerd's pull leaves who may have it:
// see pull.Images.
func (e *Engine) recordObserved(ctx context.Context, t task, o observed) {
	record, err := e.Records.Get(ctx, t.Name)
	switch target := record.Target.Digest; {
	case err != nil:
	case target == o.answer.verified.Digest:
		a := o.answer
		a.runs = e.runs(ctx, t, record.Target)
		if !o.hasRead(t, target, a.runs) {
			a.verified.Read = store.Reading{}
		}
		a.actUpon() // pulls of older answers that are under way begin anew
		e.markConfirmed(ctx, a, t.names(target)...)
		err = e.revokeDenied(ctx, t, &o.answer, nil)
	}
	if err != nil {
		prefixlog.G(ctx).WithError(err).Warnf("not all is recorded of the check beside a pull of %q", t.Name)
	}
}
