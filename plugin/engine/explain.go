// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// Explanation is the end that a request would come to now, and what it follows from.
type Explanation struct {
	// Outcome is that of Ensure, but for what only a pull can find out: it is said to
	// go well. Where it depends on a registry that was not asked, its Kind is "", and
	// Forecast says on what.
	Outcome
	Forecast Forecast
	// Within is for how long the request would wait for the pull, after which it would use
	// the cached image; no bound where it would not.
	Within policy.Deadline
	// Asked says that registries were asked, as far as there is one to ask.
	Asked bool
	// Local is the image that the node has, and the caller's grant, before anything
	// was asked; zero where it could not be read.
	Local Local
	// Hosts are those for the reference, in their order, as they were known before
	// any was asked. HostsErr says why they are not known.
	Hosts    []resolver.HostState
	HostsErr error
}

// Forecast says what would follow from each answer of the registry, and not from one of
// a mirror in its place.
type Forecast struct {
	// Unchanged follows where the registry has the cached digest; zero where there is
	// no image of a digest.
	Unchanged Action
	// Changed follows where it has another one. Where Changed.Within has a bound, Overdue
	// follows in its place once the pull has taken that long; zero elsewhere.
	Changed, Overdue Action
	// CachedConfirmed follows where it has another one for the tag, but also says that
	// the caller may have the cached image, and CachedUnsaid where it does not have that
	// any more; zero where it is not asked, or where its yes makes no difference.
	CachedConfirmed, CachedUnsaid Action
	// UseCached are the classes of failure after which the cached image is used. A
	// request fails after the others.
	UseCached failure.Set
}

// Explain says how Ensure would end a request now, by the same steps and the same
// decision. No record and no proof changes, and no other request waits for it or hears
// of a refusal. The image verifiers are asked as for each image. A registry is asked
// only if ask is set, with the directives' verify_timeout; how its hosts behave counts
// for others, as after each check.
func (e *Engine) Explain(ctx context.Context, req Request, ask bool) Explanation {
	start := e.Now()
	dry := e.dryRun(&drySide{Records: e.Records})
	req.Runtime = dryRuntime{req.Runtime}
	t, c := dry.begin(ctx, req)
	x := Explanation{}
	if !c.over() {
		c = dry.unasked(ctx, t, c)
		x.Local = c.local
	} else if local, err := dry.inspect(ctx, t); err == nil {
		x.Local = local // to be shown: it takes no part
	}
	x.Hosts, x.HostsErr = e.Registry.Hosts(ctx, t.query(t.Name, x.Local), t.directives.VerifyTimeout)
	if !c.over() {
		nobody := x.HostsErr != nil || !slices.ContainsFunc(x.Hosts, func(h resolver.HostState) bool { return h.Asked })
		if ask || nobody {
			x.Asked = !nobody
			c = dry.act(ctx, t, dry.check(ctx, t, c))
		} else {
			x.Forecast = dry.forecast(ctx, t, c.local, x.Hosts)
		}
	}
	x.Outcome, x.Within = newOutcome(ctx, t, c), c.within
	x.Elapsed = e.Now().Sub(start)
	return x
}

// dryRun returns an engine that decides as this one does, and whose effects end at the
// side.
func (e *Engine) dryRun(side *drySide) *Engine {
	return &Engine{
		Rules: e.Rules, Records: side, Content: e.Content, Sources: e.Sources, Marks: side, Proofs: side,
		Registry: e.Registry, VerifyImage: e.VerifyImage, Now: e.Now, Node: e.Node, dry: true,
	}
}

// foreseePull ends a request that would pull, or reverify, as if that went well. The
// verifiers are asked before a pull, too.
func (e *Engine) foreseePull(ctx context.Context, t task, c course, action Action, reason Reason) course {
	a := c.answer
	if action.Do == Reverify {
		c.local.ForeignSource = false
		return c.ended(e.reuse(ctx, t, c, action, hasTurn))
	}
	if err := e.askVerifiers(ctx, t, a.descriptor); err != nil {
		return c.ended(failed(ReasonPull, err))
	}
	return c.ended(end{kind: Pulled, reason: reason, digest: a.verified.Digest})
}

// forecast says what would follow from a check. A refusal, by the registry itself,
// takes the caller's proof away before it is decided. A verifier that refuses the
// cached image stops each use of it; that of another image is not known.
func (e *Engine) forecast(ctx context.Context, t task, local Local, hosts []resolver.HostState) Forecast {
	d := t.directives.Directives
	const changed digest.Digest = "changed"
	f := Forecast{Changed: Decide(d, local, Check{Digest: changed, Cached: NotConfirmed})}
	if _, bounded := f.Changed.Within.Bound(); bounded {
		complete := local // before the pull
		complete.incomplete = false
		f.Overdue = decideOverdue(d, complete, Check{Digest: changed, Cached: NotConfirmed})
	}
	if Decide(d, local, Check{Digest: changed}).Do == AskCached {
		f.CachedConfirmed = Decide(d, local, Check{Digest: changed, Cached: Confirmed})
		f.CachedUnsaid = Decide(d, local, Check{Digest: changed, Cached: Unsaid})
	}
	if local.target() != "" {
		f.Unchanged = Decide(d, local, Check{Digest: local.target()})
	}
	f.UseCached = fallbacks(d, local, heard{})
	if local.ImageID != "" && e.askVerifiers(ctx, t, local.Record.Target) != nil {
		return f.refused(local)
	}
	if !local.Usable() {
		return f
	}
	refused, err := e.afterRefusal(ctx, t, local, hosts)
	for _, class := range failure.All() {
		if class.Refuses() {
			f.UseCached = f.UseCached.With(class, err == nil && Decide(d, refused, Check{Class: class}).Do == Reuse)
		}
	}
	return f
}

// refused is the forecast where the verifiers refuse the cached image. That a registry confirms it
// makes no difference for a caller without a proof: what the tag stands for is pulled.
func (f Forecast) refused(local Local) Forecast {
	f.UseCached, f.Overdue, f.Changed.Within = 0, Action{}, policy.Deadline{}
	if !local.isKnown() {
		f.CachedConfirmed = Action{}
	}
	for _, a := range []*Action{&f.Unchanged, &f.CachedConfirmed, &f.CachedUnsaid} {
		if a.Do == Reuse || a.Do == Reverify {
			*a = Action{Do: Fail, Kind: Failed, Reason: local.reasonRefused(a != &f.CachedUnsaid)}
		}
	}
	return f
}

// afterRefusal returns the node's image after a refusal by the registry itself.
func (e *Engine) afterRefusal(ctx context.Context, t task, local Local, hosts []resolver.HostState) (Local, error) {
	var refusals []store.Refusal
	for _, h := range hosts {
		if h.Origin {
			refusals = append(refusals, store.Refusal{Host: h.Host, Origin: true, Spelled: h.Spelled})
		}
	}
	err := e.revokeIfDenied(ctx, t, nil, refusals)
	if err != nil {
		return local, err
	}
	local.Grant, _, err = e.authorize(ctx, t, local.Record, e.trusted(ctx, t))
	return local, err
}
