// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/registryname"
	"github.com/pullwarden/pullwarden/plugin/isolation"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// Pulls track their sources: resolver.Source reports who served which digest.
var _ transfer.SourceReporter = resolver.Source(nil)

// The phases in which a registry can fail.
const (
	checking = "check"
	pulling  = "pull"
)

// pull pulls the digest that the registry answered, for that reason. Pulls of
// one name take turns: containerd writes the target of a record more than once
// in a pull, and two pulls of different digests in between would leave labels on
// the wrong one.
func (e *Engine) pull(ctx context.Context, t task, c course, reason Reason, session resolver.Session) course {
	try := e.newTry(t, c.answer.verified.Digest)
	defer try.leave()
	ctx, unlock, err := e.turns.Lock(ctx, t.Name, e.Patience)
	if err != nil {
		return c.ended(failed(ReasonCanceled, err))
	}
	defer unlock()
	c, cause := e.pullAtTurn(ctx, t, c, reason, session, try)
	switch {
	case cause != nil && try.took:
		return e.fallBackShared(ctx, t, c, hasTurn, cause)
	case cause != nil:
		return e.fallBack(ctx, t, c, pulling, hasTurn, cause)
	}
	return c
}

// pullAtTurn pulls when the turn has come. The course has ended, unless there is a
// cause: why registries failed.
func (e *Engine) pullAtTurn(ctx context.Context, t task, c course, reason Reason, session resolver.Session, try *try) (_ course, cause *resolver.Error) {
	source := session.Source(c.answer.descriptor)
	c.answer.content = source
	a := c.answer
	// While this request waited for its turn, another may have pulled the same.
	local, err := e.inspect(ctx, t)
	if err != nil {
		return c.ended(failed(ReasonInternal, err)), nil
	}
	c.saw(local)
	action := Decide(t.directives.Directives, local, a.check(NotConfirmed))
	c.use(action.Used...)
	if action.Do != Pull && e.blocked(ctx, t, &c.local) {
		action.Do = Pull
	}
	found := action.Do == Reuse
	if a.isOutdated() { // an image that is found may have come by another host's word
		return c.ended(failed(ReasonPull, errOutdated)), nil
	}
	p, err := e.possesses(ctx, t, a.verified.Digest)
	if err != nil {
		return c.ended(failed(ReasonInternal, err)), nil
	}
	c.answer.held = c.answer.held.or(p.held)
	if need := t.needs(action.Do, local, p); need != (needs{}) {
		if cause := try.shared(need); cause != nil {
			return c, cause
		}
		try.begin(need)
	}
	switch {
	case found:
		c, err = e.reuseFound(ctx, t, c, action, source)
	case e.dry:
		return e.foreseePull(ctx, t, c, action, reason), nil
	case action.Do == Reverify:
		c, err = e.reverify(ctx, t, c, action, source)
	default:
		c, err = e.fetch(ctx, t, c, reason, source, p)
	}
	c.deny(refusalsAmong(source.Refusals())...)
	c.hearPull(source.Heard())
	if err == nil {
		return c, nil
	}
	if c, cause = pullFailed(ctx, c, source, try, err); cause != nil {
		c.deny(refusalsAmong(cause.Attempts)...)
		return c, cause
	}
	// Whatever has failed it, the hosts' refusals count.
	if err := e.endRefused(ctx, t, nil, source); err != nil {
		return c.ended(failed(ReasonInternal, err)), nil
	}
	return c, nil
}

// asksForFound reports whether hosts may be asked for the manifest of an image that is
// found on the node: see [Engine.verifyFound].
func (t *task) asksForFound(local Local) bool {
	return !local.Grant.Given() || t.readsManifests() && nested(local) != (resolver.Nested{})
}

// reuseFound reuses the image that was found when the turn of a pull had come.
func (e *Engine) reuseFound(ctx context.Context, t task, c course, action Action, source resolver.Source) (course, error) {
	a := c.answer
	if err := e.verifyFound(ctx, t, a, c.local.Record.Target, source, c.local.Grant.Given()); err != nil {
		return c, e.orGone(ctx, t, a.verified.Digest, err)
	}
	if err := e.endRefused(ctx, t, a.watch, source); err != nil { // before a proof is stored
		return c.ended(failed(ReasonInternal, err)), nil
	}
	return e.unchanged(ctx, t, c, action, hasTurn, t.names(a.verified.Digest)...), nil
}

// fetch has containerd pull from the source. Under a list of sources it takes the bytes of an
// image of which some were on the node before, from elsewhere, once more, before any record is
// of that: until then the tag keeps the image that it had, to fall back to.
func (e *Engine) fetch(ctx context.Context, t task, c course, reason Reason, source resolver.Source, p possession) (course, error) {
	a := c.answer
	plan := &transfer.Plan{Reference: t.Name, Source: source, Scope: t.scope(source.Hosts()), OwnDocuments: p.ownDocuments()}
	verify := e.verifyStored(t, a, source, p)
	var pinned, outdated atomic.Bool
	plan.Verify = func(ctx context.Context, target ocispec.Descriptor) error {
		if err := verify(ctx, target); err != nil {
			return err
		}
		if err := e.endRefused(ctx, t, a.watch, source); err != nil { // before a proof is stored
			return err
		}
		a.runs = e.runs(ctx, t, target)
		return nil
	}
	plan.Compare = e.comparison(t, a, source)
	var pin store.Pin
	plan.Write = func(ctx context.Context, write func() error) (err error) {
		if pin, err = e.pinOf(ctx, t); err != nil {
			return err
		}
		return e.Proofs.WriteProofs(ctx, func() error {
			if !a.actUponUnlessOutdated() {
				outdated.Store(true)
				return errOutdated
			}
			return write()
		})
	}
	plan.State = func(_ digest.Digest, before store.State) store.State {
		state := e.pulledState(a, before)
		e.Proofs.Given(ctx, state, t.names(a.verified.Digest)...)
		state.Pin = pin
		pinned.Store(pin.Own)
		return state
	}
	id, err := t.Runtime.Pull(ctx, plan)
	if pinned.Load() { // whatever becomes of the request: what came with a pin takes room
		e.Pins.Pulled(t.Name)
	}
	// Somebody may have acted on a later answer at the very moment of the write, too.
	if outdated.Load() || err == nil && a.isOutdated() {
		return c.ended(failed(ReasonPull, errOutdated)), nil
	}
	if err != nil {
		return c, err
	}
	c.answer.runs = a.runs
	return e.recordPull(ctx, t, c, end{kind: Pulled, reason: reason, imageID: id}), nil
}

// comparison returns how a pull compares what it has brought, nil where no list of sources is in force.
func (e *Engine) comparison(t task, a answer, source resolver.Source) func(context.Context, store.State, func(digest.Digest) bool) (provenance.Provenance, error) {
	if !t.restricted() {
		return nil
	}
	return func(ctx context.Context, sources store.State, delivered func(digest.Digest) bool) (from provenance.Provenance, err error) {
		switch {
		case t.fromElsewhere(sources):
			err = e.verifyContent(ctx, t, a, source)
			from = source.Served()
		case !hasLayers(sources):
			err = e.verifyLayers(ctx, t, a.descriptor, source, delivered)
			from.Hosts = source.Served().Hosts
		default:
			return from, nil
		}
		if err == nil {
			err = e.endRefused(ctx, t, a.watch, source)
		}
		return from, err
	}
}

// scope is that of a pull of the task from the hosts of its source, in their order.
func (t *task) scope(hosts []string) isolation.Scope {
	return isolation.Source{
		Repository:     registryname.Repository(t.Repository),
		Hosts:          hosts,
		Caller:         string(t.asker()),
		CredentialHost: t.CredentialHost,
		RegistryOnly:   t.restricted(),
	}.Scope()
}

// pullFailed tells why registries failed a pull, or a reverification, or ends a request
// where none of them is at fault. What a pull met that its caller has left is its own: refusals
// end its proofs, and others have not failed.
func pullFailed(ctx context.Context, c course, source resolver.Source, try *try, err error) (_ course, cause *resolver.Error) {
	cause = source.Failure(err)
	left := ctx.Err() != nil
	if cause == nil || left && len(cause.Refusals()) == 0 {
		return c.ended(failed(ReasonPull, source.Clean(err))), nil
	}
	if !left {
		try.fail(cause)
	}
	return c, cause
}

// verifyStored refuses to store an image under another digest than the registry's,
// about which it has said nothing, and one that is not its own.
func (e *Engine) verifyStored(t task, a answer, source resolver.Source, p possession) func(context.Context, ocispec.Descriptor) error {
	return func(ctx context.Context, target ocispec.Descriptor) error {
		if target.Digest != a.verified.Digest {
			return fmt.Errorf("containerd has made %s of %s, which is not what the registry has", target.Digest, a.verified.Digest)
		}
		if !p.known {
			if err := e.verifyPossession(ctx, t, target, source); err != nil {
				return err
			}
			return e.verifyFound(ctx, t, a, target, source, true)
		}
		now, err := e.possesses(ctx, t, target.Digest) // a proof may have ended in the minutes of the pull
		if err != nil {
			return err
		}
		return e.verifyFound(ctx, t, a, target, source, p.proved && now.proved)
	}
}
