// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/pool"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// ErrBudget is the cause with which a context ends whose time for a check, or
// for a host's share of it, is used up. Silence until then makes a host suspect; the
// end of a context for another cause says nothing about it.
var ErrBudget = fmt.Errorf("the time for the check is used up: %w", context.DeadlineExceeded)

const (
	// patience is how long a host may need before silence within a check's budget is
	// suspect, and is a time-out when the budget ends.
	patience = 500 * time.Millisecond

	tooLate  = "it did not answer in time"
	unheard  = "it could not be reached"
	answered = "it answered "

	unfinished = "it did not go on with its answer"
)

// report tells the session's view of the hosts what became of each try.
type report struct {
	next     http.RoundTripper
	host     home    // the configured one
	prober   *prober // nil = nobody is probed
	tokens   bool    // the requests are for tokens
	redactor *redact.Redactor
}

// RoundTrip implements http.RoundTripper.
func (r *report) RoundTrip(req *http.Request) (*http.Response, error) {
	p := purpose.Of(req.Context())
	left := p.TimeLeft(req.Context())
	of := request{health: p.Health, target: r.host.targetOf(req, r.tokens), queue: &pool.Queue{Left: left}}
	of.probe, of.probeSelf = r.probe(of.key, req), r.probe(of.self, req)
	of.began = time.Now()
	dialing := hosts.NewDialing(p.Asked.Tell)
	defer p.Asked.Begin(&together{request: of, req: req, redactor: r.redactor, dialing: dialing})()
	if p.Kind == purpose.Check {
		// The verdict is there when the check gives up: whoever comes then need not wait.
		defer time.AfterFunc(patience, func() { of.slow(left) }).Stop() //nolint:contextcheck // a probe is nobody's request
	}
	ctx := pool.WithQueue(req.Context(), of.queue)
	if p.Asked != nil {
		ctx = dialing.With(ctx)
		defer dialing.Done()
	}
	resp, err := r.next.RoundTrip(req.WithContext(ctx))
	if of.queue.Waiting() {
		return resp, err // nobody has been asked
	}
	seen := of // slow may be reading the other
	if admitted := of.queue.Admitted(); !admitted.IsZero() {
		seen.began = admitted
	}
	if !p.Since.IsZero() {
		seen.began = p.Since
	}
	seen.ended(resp, err, context.Cause(req.Context())) //nolint:contextcheck // a probe is nobody's request
	if wait := silenceOf(p); err == nil && wait > 0 {
		resp.Body = &reportedBody{ReadCloser: resp.Body, of: seen, wait: wait}
	}
	return resp, err
}

// request is one request to a host.
type request struct {
	health *health.View
	target
	probe     health.Probe // nil = none is made
	probeSelf health.Probe // the same of target.self
	began     time.Time
	queue     *pool.Queue // the time in which it waits is not the host's
}

// slow tells that there is no answer so far, of the time that there is for one, unless the request has waited for a part of it.
func (r request) slow(left time.Duration) {
	if !r.queue.Waiting() && r.queue.Admitted().IsZero() {
		r.health.Slow(r.key, r.probe, r.began.Add(left))
		r.health.Slow(r.self, r.probeSelf, r.began.Add(left))
	}
}

// failed tells that it has failed.
func (r request) failed(f health.Failure) {
	r.health.Failed(r.key, r.probe, f)
	switch {
	case r.self == health.Key{}:
	case f.Class == failure.RateLimited: // perhaps of all that is asked at that address
		r.health.Failed(r.self, nil, f)
	default:
		r.health.Suspect(r.self, r.probeSelf)
	}
}

// ended tells what became of the request, by its answer or error and the cause with
// which its context ended.
func (r request) ended(resp *http.Response, err, cause error) {
	f, judged := fault.As(err)
	switch {
	case judged:
		switch seen, says := judge(f, r.began); {
		case seen.Class != failure.None:
			r.failed(seen)
		case says:
			r.health.Answered(r.key, false)
		}
	case err == nil:
		r.health.Answered(r.key, resp.StatusCode == http.StatusUnauthorized)
	case errors.Is(cause, ErrBudget):
		silence := time.Since(r.began)
		r.failed(health.Failure{
			Class: failure.Unreachable, Reason: tooLate, Timeout: silence >= patience, Began: r.began, Silence: silence,
		})
	case errors.Is(cause, ErrSlow): // as where it is the error: see judge
		r.failed(health.Failure{Class: failure.Unreachable, Reason: tooLate, Timeout: true, Began: r.began})
	}
}

// probe returns the probe of a host, nil where none is made: nobody probes the targets
// of redirects, and of those that are not told, so nothing is said of them beyond the session.
func (r *report) probe(key health.Key, req *http.Request) health.Probe {
	switch {
	case r.prober == nil, key == health.Key{}:
		return nil
	case key == r.host.key:
		return r.prober.registry
	case r.tokens && purpose.Of(req.Context()).Health.Tells(key, req.URL):
		return r.prober.tokenServer(key.Host)
	}
	return nil
}

// judge says what a fault tells of the host: that it is in trouble, or that it has answered, with
// class None; or nothing, where says is false. What failed at once, without an answer, costs nothing,
// and ends no trouble either, nor the time for which the host has asked to be left alone. A host that does not implement
// a method (RFC 9110, 15.6.2), such as a token server that knows POST alone, is well.
func judge(f *fault.Fault, began time.Time) (seen health.Failure, says bool) {
	seen = health.Failure{Class: f.Class, Reason: answered + fault.StatusText(f.Status), RetryAfter: f.RetryAfter}
	switch {
	case f.Class == failure.RateLimited, f.Class == failure.Unavailable && f.Status >= 500 && f.Status != http.StatusNotImplemented:
		return seen, true
	case f.Status != 0:
		return health.Failure{}, true
	case f.Class != failure.Unreachable:
		return health.Failure{}, false
	case fault.TimedOut(f.Err):
		return health.Failure{Class: f.Class, Reason: tooLate, Timeout: true, Began: began}, true
	case time.Since(began) >= patience:
		return health.Failure{Class: f.Class, Reason: unheard, Timeout: true, Began: began}, true
	}
	return health.Failure{}, false
}
