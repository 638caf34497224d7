// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"time"
)

// Observation is one finished HTTP request.
type Observation struct {
	Host string // the configured host for which it was made, also where a token server or a redirect was asked
	// Configured says that the operator has named the host, in a hosts.toml or the
	// like. Others are named by references alone.
	Configured bool

	Method  string        // GET, HEAD or POST
	Code    int           // status, 0 = no answer
	Elapsed time.Duration // until the answer's header was there
}

// observe counts and measures each request for somebody who listens, on the
// goroutine that makes it and without locks.
type observe struct {
	next       http.RoundTripper
	host       string
	configured bool
	observe    func(Observation)
}

// RoundTrip implements http.RoundTripper.
func (o *observe) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := o.next.RoundTrip(req)
	seen := Observation{Host: o.host, Configured: o.configured, Method: req.Method, Elapsed: time.Since(start)}
	if resp != nil {
		seen.Code = resp.StatusCode
	}
	o.observe(seen)
	return resp, err
}
