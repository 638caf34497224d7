// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine takes the one decision of pullwarden: whether the image on
// the node or a pull serves a request.
//
// A request walks a row of values:
//
//	local  := inspect()                          the image on the node, and the caller's grant   inspect.go, grant.go
//	check  := check()                            the registry's digest, or its failure           ask.go
//	action := Decide(directives, local, check)   pure                                            decide.go
//	end    := act(action)                        reuse, pull, reverify or fail                   act.go, apply.go, pull.go
//
// After a registry failed, fallBack (fallback.go) has Decide say whether the cached
// image would do. A denial takes proofs away first (holder.go): a check belongs to its caller,
// and a proof to its holder, the caller or the namespace of its pod.
//
// An answer that is acted upon late takes no tag from a newer one (newest.go): the request begins
// anew.
//
// The course of a request keeps these values, and its Outcome is made of them
// in one place (outcome.go).
//
// Under a pull_deadline a pull of a changed image belongs to the engine, and goes on in
// the background when who asked for it is content with the cached image (deadline.go,
// sharedpulls.go, background.go).
//
// Under policy.Observe containerd pulls by itself, and the same way is walked beside
// that pull up to act, which is left out (observe.go).
package engine

import (
	"context"
	"time"

	"github.com/containerd/containerd/v2/pkg/tracing"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/shared"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// Engine decides. All fields but VerifyImage, Pins, Observe, Started and Node are needed. It is
// safe for concurrent use.
type Engine struct {
	// Rules returns the rules in force. The error is that of a context which ends while there
	// are new ones to be read; the rules then are those before, and decide nothing.
	Rules    func(context.Context) (*policy.Rules, error)
	Records  Records
	Content  Content
	Sources  Sources
	Marks    Marks
	Proofs   Proofs
	Registry Registry
	// VerifyImage asks the node's image verifiers about a cached image, as the
	// transfer service does before each pull; nil for none.
	VerifyImage func(ctx context.Context, name string, target ocispec.Descriptor) error
	// Pins keeps images that rules pin; nil for none.
	Pins Pins
	// Observe is told every outcome, with the context of its span; nil for none.
	Observe func(ctx context.Context, o Outcome)
	// Now is the clock.
	Now func() time.Time
	// Started is when the daemon started: the node has made its checks for that minute then.
	// Zero = long ago.
	Started time.Time
	// Node tells the nodes of a fleet apart: a check counts for between half of max_age
	// and all of it, on each for another time, so that nodes that asked together do not ask
	// together again. 0 = all of it.
	Node uint64

	// Patience is for how long one pull waits for those of other repositories: see [isolation.Config].
	Patience time.Duration

	checks shared.Group[checkKey, checked, course]
	turns  lines // of the pulls of one name
	// completions are the turns of those who complete the image of one name, and wait for no pull.
	completions lines
	tries       shared.Map[pullKey, *tries]
	denials     denials
	newest      newest
	budgets     budgets

	pulls sharedPulls // that a pull_deadline bounds the wait for

	detached     detached
	observations observations
	// dry is set in the engines of [Engine.Explain]: a pull is only foreseen.
	dry bool
}

// Close ends the observations and the background pulls that are under way, which takes
// seconds at most; the error says that some have not ended. Requests after it are not
// observed, and wait for their pulls.
func (e *Engine) Close() error { return e.detached.close() }

// Ensure makes sure that the image is there as its policy wants it, or fails. The
// decision is a span of containerd's tracer, above those of the pull.
// The error is an *Error, or wraps the context's when the caller went away.
//
// Under policy.Observe it has containerd pull by itself. Then the error is
// containerd's, and the outcome says no more than that the request was observed:
// Engine.Observe is told what would have been decided.
func (e *Engine) Ensure(ctx context.Context, req Request) (Outcome, error) {
	ctx, span := tracing.StartSpan(ctx, "pullwarden.Ensure")
	defer span.End()
	start := e.Now()
	t, c := e.begin(ctx, req)
	if t.directives.Mode == policy.Observe {
		return Outcome{Observed: true}, e.pullObserved(ctx, t, c)
	}
	coalesced := false
	if !c.over() {
		c, coalesced = e.walk(ctx, t, c)
	}
	if req.Started {
		c.use(policy.KeyGovern)
	}
	e.pin(ctx, t, c)
	o := newOutcome(ctx, t, c)
	o.Coalesced, o.Elapsed = coalesced, e.Now().Sub(start)
	if e.Observe != nil {
		e.Observe(ctx, o)
	}
	return o, o.Err
}

// begin returns the task of a request. Its course is over where its hints or the
// node's configuration decide alone, and where it ends before the rules are known.
func (e *Engine) begin(ctx context.Context, req Request) (t task, c course) {
	rules, left := e.Rules(ctx)
	directives, err := rules.For(req.Subject)
	t = task{Request: req, directives: directives}
	switch {
	case left != nil:
		t.directives.Mode = policy.Enforce // no pull is begun by the rules of before
		c = course{end: failed(ReasonCanceled, left)}
	case err != nil:
		c = course{used: []policy.Key{policy.KeyHints}, end: failed(ReasonHint, err)}
	case t.restricted() && t.SourcesLimit != nil:
		c = course{used: []policy.Key{policy.KeyAllowedSources}, end: failed(ReasonSource, t.SourcesLimit)}
	default:
		c.use(policy.KeyPolicy)
	}
	return t, c
}

// walkOnce takes a request from step to step.
func (e *Engine) walkOnce(ctx context.Context, t task, c course) (_ course, coalesced bool) {
	if t.asksAlways() {
		// Requests that join a check need no look at the node of their own.
		return e.coalesce(ctx, t, c)
	}
	if c = e.unasked(ctx, t, c); c.over() {
		return c, false
	}
	return e.coalesce(ctx, t, c)
}

// unasked ends a request by what the node has, unless a registry is to be asked.
func (e *Engine) unasked(ctx context.Context, t task, c course) course {
	local, err := e.inspect(ctx, t)
	if err != nil {
		return c.ended(failed(ReasonInternal, err))
	}
	c.saw(local)
	action := Decide(t.directives.Directives, local, Check{})
	c.use(action.Used...)
	if action.Do == Ask {
		return c
	}
	return c.ended(e.apply(ctx, t, c, action))
}

// joinPart is the part of its verify_timeout for which a check can be joined.
// Who joins has most of that time left, as if the check were its own.
const joinPart = 10

// coalesce asks a registry, once for all equal requests of one namespace that come until
// it answers, and acts on the answer, once for those too. Requests that come later
// ask anew: the tag may have moved since. Callers that cannot be told apart share
// nothing, nor does a request that insists on its own answer, or that was refused before it began anew: what proofs are
// worth to that one differs.
func (e *Engine) coalesce(ctx context.Context, t task, c course) (course, bool) {
	if t.Caller == "" || t.insists || len(t.denied) > 0 {
		return e.act(ctx, t, e.check(ctx, t, c)), false
	}
	key := t.checkKey()
	key.overdue = c.overdue
	result, joined, err := e.checks.Do(ctx, key, shared.Work[checked, course]{
		Ask: func(ctx context.Context, answered func()) checked {
			asking := t
			asking.answered = answered
			return e.check(ctx, asking, c)
		},
		Within: t.directives.VerifyTimeout / joinPart,
		Act:    func(ctx context.Context, k checked) (course, error) { return e.act(ctx, t, k), nil },
	})
	if err != nil {
		return c.ended(failed(ReasonCanceled, err)), joined
	}
	return result, joined
}
