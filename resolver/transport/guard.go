// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// guard gets one permit for all tries of a request, or skips a host in trouble
// when there is something else to use.
type guard struct {
	next     http.RoundTripper
	health   *health.Breakers
	redactor *redact.Redactor
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	p := purpose.Of(req.Context())
	key := health.Key(req.URL.Scheme, req.URL.Host)
	// A check has a permit for its host, and perhaps its token server is the same.
	if p.Permit != nil && p.Permit.Key() == key {
		return g.next.RoundTrip(req)
	}
	permit, open := g.health.Admit(key)
	if open != nil {
		if p.CanFailFast(open.Class, g.health) {
			return nil, &fault.Fault{Class: open.Class, Err: g.redactor.Request(req, open), ShortCircuited: true}
		}
		permit = g.health.Force(key)
	}
	defer permit.Release()
	p.Permit = permit
	return g.next.RoundTrip(req.WithContext(purpose.With(req.Context(), p)))
}
