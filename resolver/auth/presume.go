// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// presumption is what a way of a check has made of the challenge that its host is expected to
// give for the repository, since it has given it to the same caller for another one. The
// token is asked for at once. Whatever goes wrong with it, the registry is asked without,
// and what follows is as if nothing had been presumed. A refusal of what is only remembered is kept
// here, too. Guarded by the lock of Authorizer.
type presumption struct {
	tokens  *tokens        // that meet what is presumed; nil = nothing is presumed
	wants   *http.Response // what they meet, as an answer
	header  string         // the Authorization that was given for it
	aged    bool           // it was given for it before: it may have been revoked since
	plain   bool           // the next request has none
	doubted bool           // it was not believed
	refused error          // by the token server
	wrong   int            // refusals of what was presumed or suspected

	suspect   string  // the Authorization that may be over: see suspects; "" = none was
	suspected bool    // the answer is under way to AddResponses
	asks      *tokens // whose suspect that is, while the host is asked without a token so that it names its token server; else nil
	open      *tokens // the same, once it has served who shows none
}

// authorization returns the Authorization for a request, "" for none.
func (a *Authorizer) authorization(ctx context.Context, t *tokens, u *url.URL) (string, error) {
	if a.skipsOnce() {
		return "", nil
	}
	if err := a.renewed(ctx, t, u); err != nil {
		return "", err
	}
	remembered := t.recall(a.options.Scope.Repository) //nolint:bodyclose // it has none
	a.presume(ctx, t, u)
	presumed := t.presumed() //nolint:bodyclose // the same
	if presumed == nil {
		return a.byRemembered(ctx, t, u, remembered)
	}
	if purpose.Of(ctx).Kind != purpose.Check {
		return "", nil // nobody would doubt a refusal: the host says itself what it wants
	}
	// A repository that is open to all must not wait for the token server for long.
	within, cancel := inPart(ctx, 4)
	defer cancel()
	before := t.given()
	header, err := t.authorization(within, u)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil && header == "":
		return "", nil // no token was asked for: an answer confirms nothing
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.presumed.tokens, a.presumed.wants = t, presumed
	a.presumed.header, a.presumed.aged = header, header != "" && header == before
	if err != nil {
		a.presumed.doubted = true
		if within.Err() == nil && fault.TokenClass(err).Refuses() {
			a.presumed.refused = err
		}
		t.unpresume()
		return "", nil
	}
	return header, nil
}

// inPart returns a context for what may take one of so many parts of the time that is left, if that is bounded.
func inPart(ctx context.Context, of time.Duration) (context.Context, context.CancelFunc) {
	left := purpose.Of(ctx).TimeLeft(ctx)
	if left <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, left/of)
}

// skipsOnce reports whether the next request has no Authorization.
func (a *Authorizer) skipsOnce() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	plain := a.presumed.plain
	a.presumed.plain = false
	return plain
}

// presume makes tokens meet the challenge that is to be expected. Only checks do so: what
// they find out is there when a pull begins.
func (a *Authorizer) presume(ctx context.Context, t *tokens, u *url.URL) {
	if a.shared.awaits() || t.caller == nil || purpose.Of(ctx).Kind != purpose.Check || !t.untried() {
		return
	}
	expected, known, first := t.caller.expect(ctx)
	if first {
		a.shared.await(t.caller)
	}
	if known {
		t.presume(ctx, expected.answer(u, a.options.Scope.Repository)) //nolint:bodyclose // it has none
	}
}

// doubts takes note of an answer that refuses what was presumed, and reports whether it
// does. The next request is made without; where the host wants a token then, it is a fresh one.
// A suspect is renewed before that.
func (a *Authorizer) doubts(sent string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &a.presumed
	if p.suspected && p.suspect == sent {
		p.suspected = false
		p.wrong++
		return true
	}
	if p.header == "" || p.header != sent || p.doubted {
		return false
	}
	p.plain, p.doubted = true, true
	p.wrong++
	if p.aged {
		p.tokens.revoked(sent)
	}
	return true
}

// wrong returns how many refusals were of what was presumed.
func (a *Authorizer) wrong() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.presumed.wrong
}

// stands takes note of the challenge in an answer to a request that had no Authorization. It
// returns the token server's refusal of the very same, nil for none: nobody asks twice.
func (a *Authorizer) stands(t *tokens, last *http.Response) error {
	seen, ok := readChallenge(last, a.options.Scope.Repository)
	if t.caller != nil && fault.First(last.Request) == last.Request {
		t.caller.learn(seen, ok)
	}
	a.shared.isChallenged()
	a.mu.Lock()
	a.presumed.asks = nil
	refused, of, wants := a.presumed.refused, a.presumed.tokens, a.presumed.wants
	a.presumed.refused = nil
	a.mu.Unlock()
	if refused != nil && of == t && seen.isOf(wants, a.options.Scope.Repository) {
		return refused
	}
	return nil
}

// Finish ends a check, and the way of it that counts. Answered tells that the host has
// answered it: what was presumed is right then, and a host that has wanted nothing may do so
// again.
func (a *Authorizer) Finish(answered bool) {
	a.mu.Lock()
	p := a.presumed
	a.presumed = presumption{}
	a.mu.Unlock()
	first, challenged := a.shared.finish()
	if answered && p.open != nil && !challenged { // who shows that token is refused
		p.open.dropRefused(p.suspect)
	}
	switch {
	case !answered:
	case p.tokens != nil && !p.doubted:
		p.tokens.confirm()
	case p.tokens != nil && !challenged:
		p.tokens.unpresume()
		p.tokens.caller.learn(challenge{}, false)
	case first != nil && !challenged:
		first.learn(challenge{}, false)
	}
	if first != nil {
		first.answered()
	}
}

// Doubting returns a RoundTripper that has a refusal of what was presumed asked again: who
// shows a token may be refused what is open to all. So it has a 400 to a token that may be over.
func (a *Authorizer) Doubting(next http.RoundTripper) http.RoundTripper {
	return &doubting{next: next, authorizer: a}
}

type doubting struct {
	next       http.RoundTripper
	authorizer *Authorizer
}

// RoundTrip implements http.RoundTripper. Docker's resolver hands answers with status 401
// to its authorizer.
func (d *doubting) RoundTrip(req *http.Request) (*http.Response, error) {
	if d.authorizer.asksName(req) {
		return d.askName(req)
	}
	resp, err := d.next.RoundTrip(req)
	if err != nil || resp.StatusCode < 400 {
		return resp, err
	}
	class := fault.StatusClass(resp.StatusCode)
	if (class.Refuses() || class == failure.NotFound) && d.authorizer.presumes(req.Header.Get("Authorization")) ||
		resp.StatusCode == http.StatusBadRequest && d.authorizer.suspects(req) {
		setStatus(resp, http.StatusUnauthorized)
	}
	return resp, nil
}

// presumes reports whether an Authorization was given for what is presumed.
func (a *Authorizer) presumes(header string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return header != "" && header == a.presumed.header && !a.presumed.doubted
}
