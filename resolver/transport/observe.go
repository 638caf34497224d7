// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/pullwarden/pullwarden/resolver/redact"
)

// Observation is one finished HTTP request.
type Observation struct {
	Host string // the configured host for which it was made, also where a token server or a redirect was asked
	// Configured says that the operator has named the host, in a hosts.toml or the
	// like. Others are named by references alone.
	Configured bool

	Method  string        // GET, HEAD or POST
	Code    int           // status, 0 = no answer
	Elapsed time.Duration // until the answer's header was there, in a check all of it

	// Quota and Warnings are what the host itself said: no token server, and no target
	// of a redirect, speaks for it.
	Quota    *Quota   // nil = nothing
	Warnings []string // on one line each, without secrets; of the first answers to a session
}

// observe counts and measures each request for somebody who listens, on the
// goroutine that makes it and without locks.
type observe struct {
	next       http.RoundTripper
	host       string
	home       home
	configured bool
	tokens     bool // the requests are for tokens
	redactor   *redact.Redactor
	observe    func(Observation)
	warned     *atomic.Int32 // see Config
}

// observed puts an observer before the next RoundTripper, unless nobody listens.
func (c Config) observed(next http.RoundTripper, redactor *redact.Redactor, tokens bool) http.RoundTripper {
	if c.Observe == nil {
		return next
	}
	return &observe{next: next, host: c.Host, home: c.home(), configured: c.Configured, tokens: tokens, redactor: redactor, observe: c.Observe, warned: c.Warned}
}

// RoundTrip implements http.RoundTripper.
func (o *observe) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := o.next.RoundTrip(req)
	seen := Observation{Host: o.host, Configured: o.configured, Method: req.Method, Elapsed: time.Since(start)}
	if resp != nil {
		seen.Code = resp.StatusCode
		if o.home.keyOf(req, o.tokens) == o.home.key { // nobody knows yet which tokens an answer has
			if target, err := resp.Location(); err == nil && redirects(resp) {
				o.redactor.HideURL(target, asked(req)...) // a warning may say by what it is signed
			}
			seen.Quota, seen.Warnings = o.quota(resp.Header), o.warnings(resp.Header)
		}
	}
	o.observe(seen)
	return resp, err
}

// quota is the quota of an answer, nil where that repeats a secret: a password may be a number.
func (o *observe) quota(h http.Header) *Quota {
	quota := readQuota(h)
	if quota != nil && repeatsIn(h, o.redactor.Texts()) {
		return nil
	}
	return quota
}

// maxWarned bounds the answers of a host to one session whose warnings are read. To find secrets in
// them takes time, which is the host's to choose, and a pull has as many answers as layers.
const maxWarned = 16

func (o *observe) warnings(h http.Header) []string {
	if len(h["Warning"]) == 0 || o.warned != nil && o.warned.Add(1) > maxWarned {
		return nil
	}
	return readWarnings(h, o.redactor)
}
