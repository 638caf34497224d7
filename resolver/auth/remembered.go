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

// justNamed is how long a token server counts as the one that the host names now: its refusals are the host's.
const justNamed = 10 * time.Second

// recall forgets a challenge that the host has not given for long, before a token is asked for by it. It returns the one that
// is left unless the host has just given it, nil for none: by now, the host may name another token server.
func (t *tokens) recall(repository string) (remembered *http.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.challenged || t.asksNobody() {
		return nil
	}
	switch age := time.Since(t.lastNamed(repository)); {
	case age < justNamed:
		return nil
	case age < maxRemembered || t.run != nil:
		return t.wants
	}
	t.forget()
	return nil
}

// forget forgets a challenge that the host has not given for long, and the token. The caller holds the lock.
func (t *tokens) forget() {
	t.drop()
	t.expected = expected{}
}

// asksNobody reports whether there is a token that is good, as far as is known. The caller holds the lock.
func (t *tokens) asksNobody() bool {
	_, expires := t.meter.Load().last()
	return t.header != "" && (expires.IsZero() || time.Now().Before(expires))
}

// lastNamed returns when the host has given the challenge last: for this repository, or the same for another one of the caller's.
// The caller holds the lock.
func (t *tokens) lastNamed(repository string) time.Time {
	if t.caller == nil {
		return t.named
	}
	if seen, ok := readChallenge(t.wants, repository); ok {
		if named := t.caller.lastNamed(seen); named.After(t.named) {
			return named
		}
	}
	return t.named
}

// byRemembered returns the Authorization by a challenge of before, if there is one. Where the answer of its token server would
// fail the caller for good, the host is asked without: if it names the same one, that answer counts.
func (a *Authorizer) byRemembered(ctx context.Context, t *tokens, u *url.URL, remembered *http.Response) (string, error) {
	header, err := t.authorization(ctx, u)
	if err == nil || remembered == nil {
		return header, err
	}
	switch class := fault.TokenClass(err); {
	case !class.Refuses() && class != failure.Invalid:
		return "", err
	case ctx.Err() != nil:
		return "", ctx.Err() // nobody has the time to ask
	}
	if t.caller == nil || purpose.Of(ctx).Kind != purpose.Check {
		return "", nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.presumed.tokens, a.presumed.wants, a.presumed.refused, a.presumed.doubted = t, remembered, err, true
	return "", nil
}
