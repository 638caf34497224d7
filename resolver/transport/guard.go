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
	host     home // the configured one
	tokens   bool // the requests are for tokens
	redactor *redact.Redactor
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := skip(req.Context(), g.host.targetOf(req, g.tokens), req, g.redactor); err != nil {
		return nil, err
	}
	return g.next.RoundTrip(req)
}

// skip says why a host is not asked on behalf of the caller of ctx, nil if it is.
func skip(ctx context.Context, t target, req *http.Request, redactor *redact.Redactor) error {
	p := purpose.Of(ctx)
	for _, key := range []health.Key{t.self, t.key} {
		if key == (health.Key{}) || key == p.Admitted { // a check has made up its mind about its host
			continue
		}
		if open := trouble(ctx, p, key); open != nil {
			return &fault.Fault{Class: open.Class, Err: redactor.Request(req, open), ShortCircuited: true, Troubled: key}
		}
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
