// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// pull pulls what was compared. Pulls of one name take turns: containerd
// writes the target of a record more than once in a pull, and two pulls of
// different digests in between would leave labels on the wrong one.
func (d *decision) pull(ctx context.Context, source Source, a answer) error {
	unlock, err := d.engine.pulls.lock(ctx, d.req.Name)
	if err != nil {
		return d.fail(ReasonCanceled, err)
	}
	defer unlock()
	d.turn = true
	reason := ReasonChanged
	if d.cached == nil {
		reason = ReasonAbsent
		if d.incomplete {
			reason = ReasonIncomplete
		}
	}
	// While this request waited its turn, another may have pulled the same.
	if err := d.see(d.look(ctx)); err != nil {
		return err
	}
	if d.confirms(a) {
		return d.unchanged(ctx, ReasonSame, a, d.names(a.Digest)...)
	}
	if d.elsewhere != nil && d.elsewhere.record.Target.Digest == a.Digest {
		return d.takeAgain(ctx, source, a, d.elsewhere)
	}

	state := func(target digest.Digest, before store.State) store.State {
		return d.state(source.Served(), a, target, before)
	}
	id, applied, err := d.req.Runtime.Pull(ctx, Plan{Source: source, Admit: d.admit(source), State: state})
	if err != nil {
		return d.notPulled(ctx, source, err)
	}
	if err := d.record(ctx, source, a, applied); err != nil {
		return err
	}
	d.o.Result, d.o.Reason, d.o.ImageID = Pulled, reason, id
	return nil
}

// notPulled ends the request after a pull failed.
func (d *decision) notPulled(ctx context.Context, source Source, err error) error {
	cause := source.Failure(err)
	if cause == nil || ctx.Err() != nil && !cause.Class.Refuses() {
		return d.fail(ReasonPull, err)
	}
	if err := d.heed(ctx, cause); err != nil {
		return err
	}
	return d.fallBack(ctx, "pull", cause)
}

// complete makes what is missing of the cached image besides its content. If
// that fails, the container can still be made, only later: the error is the
// context's alone.
func (d *decision) complete(ctx context.Context) error {
	c := d.cached
	if !c.incomplete || c.record.Restricted && c.record.Verified.Digest == "" {
		return nil // what cannot be said of the names must not be left out
	}
	if !d.turn {
		unlock, err := d.engine.pulls.lock(ctx, d.req.Name)
		if err != nil {
			return err
		}
		defer unlock()
		record, err := d.engine.Images.Get(ctx, d.req.Name)
		if err != nil || record.Target.Digest != c.record.Target.Digest {
			return ctx.Err() // another pull took the name meanwhile
		}
	}
	if err := d.req.Runtime.Complete(ctx, c.record.Target, c.record.State); err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).Warnf("pullwarden: the cached image %q is not complete, and cannot be completed", d.req.Name)
	}
	return ctx.Err()
}

// record keeps what the pull found out on the records that the pull itself did
// not write it on. The error is that of an image with content from hosts that
// are not allowed.
func (d *decision) record(ctx context.Context, source Source, a answer, applied bool) error {
	d.o.Digest = a.Digest
	record, err := d.engine.Images.Get(ctx, d.req.Name)
	if err != nil {
		log.G(ctx).WithError(err).Warnf("pullwarden: nothing is recorded of the pull of %q", d.req.Name)
		return nil
	}
	target, before := record.Target.Digest, record.State
	served := resolver.Served{} // what transfer has recorded is in before
	switch {
	case applied && target != a.Digest:
		return nil // somebody else has moved the record since
	case !applied:
		// CRI pulled by itself and resolved the tag again. Whatever it got, a
		// registry gave it to this caller, and perhaps to nobody else.
		before = store.State{}
		if target != a.Digest {
			a = answer{Verified: store.Verified{Digest: target, At: d.engine.Now()}, proved: d.proved(false)}
		}
	case d.fromElsewhere(record.State):
		// Some of the content was on the node, and came by another rule.
		if err := d.compare(ctx, source, a); err != nil {
			return err
		}
		served = source.Served()
	}
	d.o.Digest = target
	state := d.state(served, a, target, before)
	if !before.PulledAt.IsZero() {
		state.PulledAt = before.PulledAt // the same pull
	}
	d.engine.Images.MarkPulled(ctx, target, state, d.names(target)...)
	return nil
}

// state is what a record says after the pull. Only what really was fetched
// counts as a source; content that was there already keeps the source it had.
func (d *decision) state(served resolver.Served, a answer, target digest.Digest, before store.State) store.State {
	s := store.State{PulledAt: d.engine.Now(), PullSource: before.PullSource, ContentSources: before.ContentSources}
	if served.ManifestReference != "" {
		s.PullSource, s.ContentSources = served.ManifestReference, nil
		if len(served.ContentHosts) > 1 {
			s.ContentSources = served.ContentHosts
		}
	}
	if target == a.Digest {
		s.Verified, s.Restricted = a.Verified, true
		s.Access = map[store.Fingerprint]time.Time{}
		for _, f := range a.proved {
			s.Access[f] = a.At
		}
	}
	return s
}

// tooStale says why the last check of a cached image is too long ago for a
// fallback; "" when it is not.
func (d *decision) tooStale(c *cached) string {
	bound := d.o.Decision.MaxStale
	if bound == 0 {
		return ""
	}
	switch age := d.age(c); {
	case age < 0:
		return fmt.Sprintf("the cached image was never checked, and max_stale is %s", bound)
	case age > bound:
		return fmt.Sprintf("the cached image was last checked %s ago, and max_stale is %s", age.Round(timeGrain), bound)
	}
	return ""
}

// fallback tells the resolver what a cached image is worth besides a registry
// in trouble: something, if the caller may have it and the policy lets it do.
// nil when it is worth nothing.
func (d *decision) fallback(c *cached) func(failure.Class) bool {
	if c.proof == "" || d.tooStale(c) != "" {
		return nil
	}
	return func(class failure.Class) bool { return d.o.Decision.OnFailure(class) == policy.UseCached }
}

// heed takes note of the failure of a registry, if it is one. The error is that
// of the request.
func (d *decision) heed(ctx context.Context, err error) error {
	var cause *resolver.Error
	if !errors.As(err, &cause) {
		return nil
	}
	d.o.Class = cause.Class
	d.o.Attempts = append(d.o.Attempts, cause.Attempts...)
	if err := d.refused(ctx); err != nil {
		return d.fail(ReasonInternal, err)
	}
	return nil
}

// fallBack ends the request after a failure that was heeded: with the cached
// image where the policy says so for the class, with an error otherwise.
func (d *decision) fallBack(ctx context.Context, what string, err error) error {
	var cause *resolver.Error
	if !errors.As(err, &cause) {
		return d.fail(ReasonInternal, err)
	}
	err = fmt.Errorf("%s failed: %s", what, cause.Detail())
	if d.cached != nil {
		// The proof may have been taken away meanwhile, also by another request.
		if err := d.entitle(ctx, d.cached); err != nil {
			return d.fail(ReasonInternal, err)
		}
		d.noteAccess()
	}
	// Who may not have the cached image is not told that there is one.
	if d.cached == nil || d.cached.proof == "" {
		return d.fail(Reason(cause.Class), err)
	}
	if on, ok := policy.KeyOn(cause.Class); ok && d.o.Decision.Policy == policy.IfDigestChanged {
		d.o.use(on)
	}
	if d.o.Decision.OnFailure(cause.Class) != policy.UseCached {
		return d.fail(Reason(cause.Class), err)
	}
	if d.o.Decision.MaxStale > 0 {
		d.o.use(policy.KeyMaxStale)
	}
	if tooStale := d.tooStale(d.cached); tooStale != "" {
		return d.fail(ReasonMaxStale, fmt.Errorf("%w; %s", err, tooStale))
	}
	if err := d.reuse(ctx, UsedCached, Reason(cause.Class)); err != nil {
		return err
	}
	stale := store.Stale{Since: d.cached.record.Stale.Since, Reason: cause.Class}
	if stale.Since.IsZero() {
		stale.Since = d.engine.Now()
	}
	target := d.cached.record.Target.Digest
	d.engine.Images.MarkStale(ctx, target, stale, d.names(target)...)
	return nil
}
