// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transport is what stands between docker's resolver and containerd's
// HTTP transports: a chain of RoundTrippers, each with one job. They know what a
// request is made for from its context (package purpose), only read that, and
// answer in values: a response, a *fault.Fault, or the error of the request's
// context when that has ended. Status 401 is left to the authorizer.
package transport

import (
	"net/http"
	"sync/atomic"

	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// Config is what the chains of one host have in common.
type Config struct {
	Host       string            // host[:port] as it is configured, for observations
	Configured bool              // by the operator, for observations
	Key        health.Key        // of the host as it is configured
	InClear    bool              // see hosts.Host
	Base       http.RoundTripper // containerd's transport
	Redactor   *redact.Redactor  // of the host: knows what errors must not repeat, and the host must not answer with
	Observe    func(Observation) // nil = nobody listens
	Warned     *atomic.Int32     // in how many answers to the session the host has warned; nil = all are read

	Probe   http.RoundTripper // the same as Base with connections of its own, for probes; nil = there are none
	Root    string            // URL of the host's API, which probes ask: https://host/v2/
	API     string            // the same without a project behind it: it says who gives tokens
	Headers []http.Header     // of the node's configuration, for the host
}

// Registry returns the chain for requests to a registry. Examine may put one
// more RoundTripper into it, which sees each try; nil = none.
//
//	Registry                       Token
//	   │                             │
//	   │                          keepHome     no credentials for whom it redirects to
//	share      of the time of a check, where a fetch is a part of one
//	quietSpans no query and no secret in a trace
//	guard      is the host in trouble? skip it
//	retry                            │         once more, if that may help and there is time
//	examine                       limit        of a token server's answer
//	report     tell the host's health what became of the try; have it probed
//	classify   no answer, or none that makes sense: a fault
//	unreferred no URL for whom it redirects to
//	unencoded  content as it is, or a fault
//	observe    count and measure
//	whole      of a manifest in a check, of a token: its body too, of a token in time
//	deadline                         │         of manifests and configs, and of silence in any content
//	shortDial  another host can answer: be quick
//	layer      how large it is         │
//	   │                             │
//	connections, shared by all sessions
func (c Config) Registry(examine func(next http.RoundTripper) http.RoundTripper) http.RoundTripper {
	rt := c.judged(&whole{next: &deadline{next: &shortDial{next: &layer{next: c.Base}}}}, false)
	if examine != nil {
		rt = examine(rt)
	}
	return &share{next: c.guarded(&retry{next: rt}, false), redactor: c.Redactor}
}

// Token returns the chain for requests to token servers. Each is one try: those who wait for the
// token decide whether there is another one.
func (c Config) Token() http.RoundTripper {
	limited := &limit{next: c.judged(&whole{next: &shortDial{next: c.Base}, tokens: true}, true), redactor: c.Redactor}
	return &keepHome{next: c.guarded(limited, true), redactor: c.Redactor}
}

func (c Config) judged(next http.RoundTripper, tokens bool) http.RoundTripper {
	next = Unreferred{Next: Unencoded{Next: c.observed(next, c.Redactor, tokens)}}
	next = &classify{next: next, redactor: c.Redactor}
	return &report{next: next, host: c.home(), prober: newProber(c), tokens: tokens, redactor: c.Redactor}
}

func (c Config) guarded(next http.RoundTripper, tokens bool) http.RoundTripper {
	return QuietSpans{Next: &guard{next: next, host: c.home(), tokens: tokens, redactor: c.Redactor}, Redactor: c.Redactor}
}
