// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/tries"
)

// knownTokens is how many of the tokens that a host has had it can name to no token server: it may take
// each of them once, and they are kept for as long as the last one.
const knownTokens = 2

// tokenRun is one use of docker's authorizer, on a context of its own and on
// behalf of all who wait for it. It is one try. Whether there is another one, each of them
// decides by its own time, and by what else it has to use; those who try again share that, too.
//
// tokens counts its waiters itself: a shared.Group has no deadline that moves
// out as they join, and no replacement of a token while it is asked for.
type tokenRun struct {
	began    time.Time
	cancel   context.CancelFunc
	asked    *purpose.Asked    // at present
	deadline *purpose.Deadline // when the last waiter gives up
	waiters  int               // guarded by the lock of tokens; 0 = it was given up
	next     *tokenRun         // of those who try again, nil = none so far; guarded by the same
	wants    *http.Response    // the challenge that it meets
	presumed bool              // the host has not confirmed that
	dial     purpose.Dial      // of who began it
	jitter   float64           // of the wait for the next one: they wake together

	done   chan struct{} // closed when header and err are set
	header string
	err    error

	renews *meter // of its answer, where it renews a token; else nil
}

// join returns the run under way, or a new one; nil when there is no challenge
// to meet. Those whose last run was the same, and failed, share the next one, also where it has
// ended meanwhile.
func (t *tokens) join(ctx context.Context, u *url.URL, last *tokenRun) *tokenRun {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.run
	if last != nil {
		r = t.after(last, purpose.Of(ctx))
	}
	if r == nil {
		if last != nil && !t.meetAgain(ctx, last) || !t.challenged {
			return nil
		}
		r = t.begin(ctx, u, last != nil)
	}
	if last != nil {
		last.next = r
	}
	r.waiters++
	r.deadline.Join(ctx)
	return r
}

// after returns what a caller waits for whose last run failed, nil for a new one. It is no run that has less time for
// a connection than the caller's own, who asks by its own terms once.
func (t *tokens) after(last *tokenRun, p purpose.Purpose) *tokenRun {
	r := last.next
	switch {
	case r != nil && r.waiters > 0:
	case last.passedOver():
		return nil // so may be that of another who has something else to use
	default:
		r = t.run
	}
	if r != nil && r.dial < p.Dial() {
		return nil
	}
	return r
}

// passedOver reports whether a run failed because who began it had something else to use, and did
// not ask, or soon gave up on a new connection.
func (r *tokenRun) passedOver() bool {
	f, failed := fault.As(r.err)
	return failed && (f.ShortCircuited || r.dial < purpose.LongDial && (fault.DialTimedOut(f.Err) || fault.HandshakeTimedOut(f.Err)))
}

// ownTerms reports whether a caller whose run failed so has to ask by its own terms: it has nothing
// else to use.
func (r *tokenRun) ownTerms(p purpose.Purpose) bool {
	f, failed := fault.As(r.err)
	switch {
	case !failed || !r.passedOver():
		return false
	case f.ShortCircuited:
		return !p.CanFailFast(f.Class)
	case fault.HandshakeTimedOut(f.Err):
		return !p.HasReadyAlternative()
	}
	return r.dial < p.Dial()
}

// meetAgain has the challenge met for those whose last run failed: its authorizer keeps the failure. It
// reports whether that is so; nobody meets what was only presumed, and has been given up since.
func (t *tokens) meetAgain(ctx context.Context, last *tokenRun) bool {
	switch {
	case t.challenged && t.run == nil:
		return true
	case t.challenged:
		return t.meet(ctx, t.wants)
	case last.presumed && !t.expected.presuming:
		return false
	}
	return t.meet(ctx, last.wants)
}

// begin begins a run on behalf of the caller of ctx.
func (t *tokens) begin(ctx context.Context, u *url.URL, again bool) *tokenRun {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t.run = t.start(own, cancel, purpose.NewDeadline(ctx), t.inner, u, again)
	return t.run
}

// start starts a run whose context is ctx, which cancel ends. The caller holds the lock.
func (t *tokens) start(ctx context.Context, cancel context.CancelFunc, deadline *purpose.Deadline, inner docker.Authorizer, u *url.URL, again bool) *tokenRun {
	p := purpose.Of(ctx)
	r := &tokenRun{
		began: time.Now(), cancel: cancel, asked: purpose.NewAsked(), deadline: deadline, done: make(chan struct{}),
		wants: t.wants, presumed: t.expected.presuming, dial: p.Dial(), jitter: tries.Jitter(),
	}
	t.runs++
	p.Deadline, p.Asked = r.deadline, r.asked
	if again {
		p.Fallback = 0 // it has been decided to ask, in trouble or not
	}
	go t.do(purpose.With(ctx, p), r, inner, u)
	return r
}

// do is the run itself.
func (t *tokens) do(ctx context.Context, r *tokenRun, inner docker.Authorizer, u *url.URL) {
	defer r.cancel()
	// Docker's authorizer looks at the host and sets the header.
	req := &http.Request{URL: &url.URL{Scheme: u.Scheme, Host: u.Host}, Header: http.Header{}}
	r.err = t.authorize(ctx, inner, req)
	r.header = req.Header.Get("Authorization")
	t.end(ctx, r, inner)
	if r.renews != nil && t.cache != nil { // who has waited may have left
		t.cache.account(t) //nolint:contextcheck // it asks nobody
	}
}

// end takes note of what has come of a run.
func (t *tokens) end(ctx context.Context, r *tokenRun, inner docker.Authorizer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.run == r {
		t.run = nil
	}
	switch {
	case r.renews != nil:
		t.endRenewal(ctx, r, inner)
	case t.inner != inner: // replaced in the meantime
	case r.err != nil:
		t.drop()
	default:
		t.keep(r)
	}
	if t.runs--; t.runs == 0 && t.own != nil { // errors have been made clean, and tokens may be kept for long
		t.own.ForgetQueries()
		t.own.KeepTokens(knownTokens)
	}
	close(r.done)
}

// keep keeps what a run has got. The caller holds the lock.
func (t *tokens) keep(r *tokenRun) {
	t.answers++
	if strings.HasPrefix(r.header, "Basic ") { // no token, which would expire as the last one did
		t.meter.Store(&meter{})
	}
	if t.header != r.header { // it is handed out anew for each request
		t.header, t.since = r.header, time.Now()
	}
	if t.own != nil { // the host may name its token server by it
		t.own.AddToken(r.header)
	}
}

// authorize asks docker's authorizer. To where a token server redirects, and by what that is signed,
// only the Redactor of the client knows: neither error nor log may have it for those who wait.
func (t *tokens) authorize(ctx context.Context, inner docker.Authorizer, req *http.Request) error {
	if t.own == nil {
		return inner.Authorize(ctx, req)
	}
	err := inner.Authorize(t.own.WithRedactedLogger(ctx), req)
	if answer, ok := errors.AsType[remoteerrors.ErrUnexpectedStatus](err); ok {
		return t.own.CleanAnswer(answer)
	}
	if err != nil {
		err = t.own.Wrap(err.Error(), err)
	}
	return err
}

// wait waits for the end of a run by the caller's own terms. An error is why the caller waits no
// longer; asks says that it has decided to ask, in trouble or not.
func (t *tokens) wait(ctx context.Context, r *tokenRun, asks bool) error {
	since := time.Now()
	var seen purpose.AskedHost
	for {
		host, moved := r.asked.Host()
		if err := declines(ctx, host, since, asks || host == seen); err != nil {
			t.leave(r)
			return err
		}
		seen = host
		select {
		case <-r.done:
			return nil
		case <-moved:
		case <-ctx.Done():
			if host, _ := r.asked.Host(); host != nil {
				host.GaveUp(ctx, since)
			}
			if t.leave(r) && fault.TokenClass(r.err).Refuses() {
				return r.err // nobody else hears it
			}
			return ctx.Err()
		}
	}
}

// declines says why a caller does not wait for a host, nil for none. A caller that asks has decided to, in trouble or not.
func declines(ctx context.Context, host purpose.AskedHost, since time.Time, asks bool) error {
	if host == nil {
		return nil
	}
	if !asks {
		if err := host.Skip(ctx); err != nil {
			return err
		}
	}
	return host.Late(ctx, since)
}

// leave takes a waiter off a run. The last one ends it, and waits for
// its end, as it would without sharing. It reports whether that was the last one.
func (t *tokens) leave(r *tokenRun) (last bool) {
	t.mu.Lock()
	r.waiters--
	last = r.waiters == 0
	switch { // the next caller must not wait for what is given up here
	case !last || t.run != r:
	case t.asksNobody():
		t.run = nil
	default:
		t.drop()
	}
	t.mu.Unlock()
	if last {
		r.cancel()
		<-r.done
	}
	return last
}
