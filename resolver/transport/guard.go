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

// guard skips a host in trouble when there is something else to use.
type guard struct {
	next     http.RoundTripper
	host     health.Key // the configured one
	redactor *redact.Redactor
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	p := purpose.Of(req.Context())
	key := keyOf(g.host, req)
	// A check has made up its mind about its host, and perhaps the token server is the
	// same.
	if p.Admitted == key {
		return g.next.RoundTrip(req)
	}
	if open := p.Health.Trouble(key); open != nil && p.CanFailFast(open.Class) {
		return nil, &fault.Fault{Class: open.Class, Err: g.redactor.Request(req, open), ShortCircuited: true}
	}
	return g.next.RoundTrip(req)
}

// keyOf is the key of the host that a request goes to: the configured one, or another
// to which that has led.
func keyOf(configured health.Key, req *http.Request) health.Key {
	key := health.KeyOf(req.URL.Scheme, req.URL.Host)
	if key != configured {
		key.For = configured.Host
	}
	return key
}
