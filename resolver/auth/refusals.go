// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// refusals counts the answers that refuse what the authorizer has given, by who gave the
// last one. Those of others, to whom a redirect has led, are none of the host's: they must
// not have it refuse a token of which it has had no fresh one. Neither counts what was only
// presumed, or doubted.
func (a *Authorizer) refusals(responses []*http.Response) (n int) {
	last := responses[len(responses)-1].Request
	if fault.Own(last) {
		n = -a.wrong()
	}
	for _, resp := range responses {
		if refusedBySame(resp, last) && a.issued(resp.Request) {
			n++
		}
	}
	return n
}

// isFresh reports whether the token that the last answer refuses was got for this very request, which the same has
// refused before.
func isFresh(responses []*http.Response) bool {
	before, last := responses[:len(responses)-1], responses[len(responses)-1].Request
	return slices.ContainsFunc(before, func(resp *http.Response) bool { return refusedBySame(resp, last) })
}

// refusedBySame reports whether an answer is a 401 of who was asked by the last request.
func refusedBySame(resp *http.Response, last *http.Request) bool {
	req := resp.Request
	return resp.StatusCode == http.StatusUnauthorized && req.URL.Host == last.URL.Host && fault.Own(req) == fault.Own(last)
}

// replace forgets a token that was refused, unless that has been done, and has the next one asked for by the challenge
// of the answer. Where that has none that can be met, the one of before is: registries leave it out of answers to
// tokens that they take no more. One that is fresh is forgotten with the challenge of before, which may be why it is refused:
// who comes next asks the host without.
func (t *tokens) replace(ctx context.Context, refused string, last *http.Response, fresh bool) error {
	if t.given() != refused {
		return nil
	}
	inner := t.renew()
	err := meet(ctx, inner, last)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.header != refused: // requests that ran side by side share the replacement
	case err == nil:
		t.inner, t.header, t.run = inner, "", nil
		t.hear(last)
	case fresh:
		t.drop()
		return err
	default:
		t.meet(ctx, t.wants)
	}
	return nil
}

// dropRefused forgets a token that was refused, and the challenge that it was given for.
func (t *tokens) dropRefused(refused string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.header == refused {
		t.drop()
	}
}

// suspects reports whether a request that was answered by 400 is worth another try: some registries have that for
// tokens that they take no more. Most have it for what is wrong with the request, so nothing is forgotten: a token of before the
// session is renewed beside its use, as rarely as one of unknown life. Where the host has not named its token server lately, or
// that has not helped, the next request has no token, so that it does.
func (a *Authorizer) suspects(req *http.Request) bool {
	sent := req.Header.Get("Authorization")
	t := a.shared.tokensOf(req.URL.Host)
	if t == nil || !strings.HasPrefix(sent, "Bearer ") || !a.issued(req) || !fault.Own(req) || a.shared.hasWaited() {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.presumed.suspect != "" {
		t.wasInVain(sent)
		return false
	}
	if !t.mayRenew(sent, a.began) {
		return false
	}
	a.presumed.suspect, a.presumed.suspected = sent, true
	if p := &a.presumed; t.wantsName(sent, a.options.Scope.Repository) {
		p.plain, p.doubted, p.asks = true, true, t
	}
	return true
}

// suspect returns the token that was suspected, "" for none.
func (a *Authorizer) suspect() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.presumed.suspect
}

// mayRenew reports whether there is another token than that, or it was given before the session, and can be renewed now.
func (t *tokens) mayRenew(sent string, session time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := &t.renewal; t.header == sent && r.run != nil {
		return r.of == t.inner && t.since.Before(session)
	}
	return t.header != sent || t.since.Before(session) && !time.Now().Before(t.renewal.again)
}

// wantsName reports whether that token can only be renewed by a server that the host has not named for long, or that has not helped.
func (t *tokens) wantsName(sent, repository string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.header == sent && t.renewal.run == nil && (t.vain || time.Since(t.lastNamed(repository)) >= maxRemembered)
}

// wasInVain takes note that a token was answered by 400 that has replaced such a one.
func (t *tokens) wasInVain(sent string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.vain = t.vain || t.header == sent
}
