// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net/url"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

const (
	// renewalTime bounds a renewal, and maxRenewalWait is how long anybody waits for it, and no more than half of the time
	// that there is.
	renewalTime    = 30 * time.Second
	maxRenewalWait = 5 * time.Second
	// renewalPause is the time from one that has failed to the next.
	renewalPause = 10 * time.Second
)

// renewal is what gets a new token in place of one whose server has not said how long it is good. That may well be
// for longer than assumedLife, so it is used until there is the new one, and whatever becomes of that, unless the caller
// is refused. Guarded by the lock of tokens.
type renewal struct {
	run   *tokenRun         // under way, nil = none
	of    docker.Authorizer // whose token it renews
	again time.Time         // it is not tried before
}

// renewed waits a while for a token that is assumed to be over for the session to be renewed. The error is that of ctx.
func (a *Authorizer) renewed(ctx context.Context, t *tokens, u *url.URL) error {
	run := t.overdue(ctx, a.began, a.suspect(), a.options.Scope.Repository, u)
	if run == nil || a.shared.hasWaited() {
		return nil
	}
	within, cancel := inPart(ctx, 2)
	defer cancel()
	timer := time.NewTimer(time.Until(run.began.Add(maxRenewalWait)))
	defer timer.Stop()
	select {
	case <-run.done:
		return nil
	case <-timer.C:
	case <-within.Done():
	}
	a.shared.waited()
	return ctx.Err()
}

// overdue returns the run that renews a token, nil for none. The token is assumed to be over for a
// session that began after that; others use theirs to the end, as stock containerd's pulls do. One whose server the host has
// not named for long is forgotten, as one that has expired would be. A suspect is renewed as well, where its server was named lately.
func (t *tokens) overdue(ctx context.Context, session time.Time, suspect, repository string, u *url.URL) *tokenRun {
	assumed := t.meter.Load().assumes()
	over := !assumed.IsZero() && !session.Before(assumed)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.header == "" || !over && t.header != suspect:
	case t.expected.presuming: // nobody has confirmed it: it is asked for anew
		t.meet(ctx, t.wants)
	case time.Since(t.lastNamed(repository)) >= maxRemembered:
		if over {
			t.forget()
		}
	case t.renewal.run != nil && t.renewal.of == t.inner:
		return t.renewal.run
	case t.renewal.run == nil && !time.Now().Before(t.renewal.again):
		return t.beginRenewal(ctx, u)
	}
	return nil
}

// beginRenewal begins one, on which nobody's leaving has an influence. The caller holds the lock.
func (t *tokens) beginRenewal(ctx context.Context, u *url.URL) *tokenRun {
	t.renewal = renewal{of: t.inner, again: time.Now().Add(renewalPause)}
	fresh := &meter{}
	inner := t.make(fresh)
	if meet(ctx, inner, t.wants) != nil {
		return nil
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewalTime)
	t.renewal.run = t.start(bound, cancel, purpose.NewDeadline(bound), inner, u, false)
	t.renewal.run.renews = fresh
	return t.renewal.run
}

// endRenewal has the new token take the place of that which r has renewed, unless another one has done so. Where the
// caller is refused it forgets both, so that who comes next hears it. The caller holds the lock.
func (t *tokens) endRenewal(ctx context.Context, r *tokenRun, inner docker.Authorizer) {
	current := t.renewal.of == t.inner
	t.renewal = renewal{again: time.Now().Add(renewalPause)}
	t.vain = t.vain || current && r.err != nil
	switch {
	case !current:
	case fault.TokenClass(r.err).Refuses():
		t.meet(ctx, t.wants)
	case r.err == nil:
		t.meter.Store(r.renews)
		t.inner, t.run = inner, nil
		t.keep(r)
	}
}

// stopRenewal ends a renewal that may be under way, of tokens that are kept no more.
func (t *tokens) stopRenewal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.renewal.run; r != nil {
		r.cancel()
	}
}
