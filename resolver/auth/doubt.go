// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

const (
	// refusedRest is how long a token is believed after a host has been asked with a fresh one: whatever the host
	// says, its token server is asked no more often for that. The kubelet waits as long before it tries again.
	refusedRest = 10 * time.Second
	// absentRest is the same for "not found", the ordinary answer of a mirror.
	absentRest = time.Minute
	// maxDoubt bounds the wait for a fresh token where nothing else does: there is an answer of the host.
	maxDoubt = 5 * time.Second
)

// Doubting returns a RoundTripper that has an answer asked for again which may be due to the token, once: to what
// was presumed, since who shows a token may be refused what is open to all, and to a token of before the session,
// which may be over or say what the caller was allowed then. The first answer counts where there is no fresh token.
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
	resp, err := d.next.RoundTrip(req)
	if err != nil || !mayBeOfToken(resp) {
		return resp, err
	}
	presumed := d.authorizer.presumes(req.Header.Get("Authorization"))
	if !presumed && !d.authorizer.renews(req, resp) {
		return resp, nil
	}
	resp.StatusCode, resp.Status = http.StatusUnauthorized, fault.StatusText(http.StatusUnauthorized)
	if !presumed {
		resp.Header.Del("WWW-Authenticate") // the fresh token is there
	}
	return resp, nil
}

// mayBeOfToken reports whether an answer may be due to the token. There are registries that answer one that is over by 400,
// or by 403.
func mayBeOfToken(resp *http.Response) bool {
	class := fault.StatusClass(resp.StatusCode)
	return class.Refuses() || class == failure.NotFound || resp.StatusCode == http.StatusBadRequest
}

// renews takes note of an answer that may be due to the token, and reports whether there is another one for the request.
func (a *Authorizer) renews(req *http.Request, resp *http.Response) bool {
	ctx, sent, class := req.Context(), req.Header.Get("Authorization"), fault.StatusClass(resp.StatusCode)
	rest := refusedRest
	switch {
	case class == failure.Unauthorized && len(resp.Header.Values("WWW-Authenticate")) > 0:
		return false // AddResponses meets that
	case class == failure.NotFound && purpose.Of(ctx).Kind != purpose.Check:
		return false // the check has just had an answer, and another host may have the content
	case class == failure.NotFound:
		rest = absentRest
	}
	t := a.shared.tokensOf(req.URL.Host)
	if t == nil || !a.issued(req) || handedOn(req) || a.astray(req) {
		return false
	}
	old, doubts := t.doubt(ctx, sent, a.began, rest)
	if !doubts {
		return false
	}
	within, cancel := inQuarter(ctx)
	defer cancel()
	within, cancelLate := context.WithTimeout(within, maxDoubt)
	defer cancelLate()
	header, err := a.authorization(within, t, req.URL)
	if says := class == failure.Forbidden || class == failure.NotFound; says && err != nil && !fault.TokenClass(err).Refuses() {
		t.restore(old)
	}
	a.options.Cache.account(t) //nolint:contextcheck // it asks nobody
	return err == nil && header != sent
}

// held is a token that was taken away from tokens.
type held struct {
	inner  docker.Authorizer
	wants  *http.Response
	header string // "" = there was none to take
}

// doubt forgets a token that was there before a session began, as if it were over, unless that has been done. It reports
// whether it is worth it to ask again.
func (t *tokens) doubt(ctx context.Context, sent string, began time.Time, rest time.Duration) (old held, doubts bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !strings.HasPrefix(sent, "Bearer "):
		return held{}, false // nobody gives another one
	case t.header != sent:
		return held{}, true // requests that ran side by side share the fresh one
	case !t.since.Before(began), time.Since(t.doubted) < rest:
		return held{}, false
	}
	old = held{inner: t.inner, wants: t.wants, header: t.header}
	t.doubted = time.Now()
	t.meet(ctx, t.wants)
	return old, true
}

// restore puts a token back for which there is no fresh one: as far as anybody knows, it is good.
func (t *tokens) restore(old held) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old.header != "" && !t.challenged && t.run == nil {
		t.inner, t.challenged, t.wants, t.header = old.inner, true, old.wants, old.header
	}
}
