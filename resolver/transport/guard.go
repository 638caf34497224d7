// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"net/http"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// guard skips a host in trouble when there is something else to use.
type guard struct {
	next     http.RoundTripper
	host     health.Key // the configured one
	redactor *redact.Redactor
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := skip(req.Context(), keyOf(g.host, req), req, g.redactor); err != nil {
		return nil, err
	}
	return g.next.RoundTrip(req)
}

// skip says why a host is not asked on behalf of the caller of ctx, nil if it is.
func skip(ctx context.Context, key health.Key, req *http.Request, redactor *redact.Redactor) error {
	p := purpose.Of(ctx)
	// A check has made up its mind about its host, and perhaps the token server is the
	// same.
	if p.Admitted == key {
		return nil
	}
	if open := trouble(ctx, p, key); open != nil {
		return &fault.Fault{Class: open.Class, Err: redactor.Request(req, open), ShortCircuited: true, Troubled: key}
	}
	return nil
}

// trouble says why a host is not to be asked, nil if it is.
func trouble(ctx context.Context, p purpose.Purpose, key health.Key) *health.OpenError {
	left := p.TimeLeft(ctx)
	open := p.Health.Trouble(key, left) //nolint:contextcheck // a probe is nobody's request
	if p.Awaits(open) {
		open = p.Health.Await(ctx, key, left, p.Waits, p.Next...)
	}
	if open == nil || !p.CanFailFast(open.Class) {
		return nil
	}
	return open
}

// keyOf is the key of the host that a request goes to: the configured one, or another
// to which that has led. What the configured one does where another has led back to it is not
// held against it: who chooses the URL finds one that is limited, or hangs.
func keyOf(configured health.Key, req *http.Request) health.Key {
	key := health.KeyOf(req.URL.Scheme, req.URL.Host)
	key.How = configured.How
	if key != configured || fault.Strayed(req) {
		key.For = configured.Host
	}
	return key
}
