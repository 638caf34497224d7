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
	"github.com/pullwarden/pullwarden/resolver/purpose"
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
)

// report tells the session's view of the hosts what became of each try.
type report struct {
	next   http.RoundTripper
	host   health.Key // the configured one
	prober *prober    // nil = nobody is probed
	tokens bool       // the requests are for tokens
}

// RoundTrip implements http.RoundTripper.
func (r *report) RoundTrip(req *http.Request) (*http.Response, error) {
	p := purpose.Of(req.Context())
	of := request{health: p.Health, host: keyOf(r.host, req)}
	of.probe = r.probe(of.host)
	start := time.Now()
	if p.Kind == purpose.Check {
		// The verdict is there when the check gives up: whoever comes then need not wait.
		defer time.AfterFunc(patience, of.slow).Stop()
	}
	resp, err := r.next.RoundTrip(req)
	of.ended(err, context.Cause(req.Context()), time.Since(start)) //nolint:contextcheck // the same
	return resp, err
}

// request is one request to a host.
type request struct {
	health *health.View
	host   health.Key
	probe  health.Probe // nil = none is made
}

func (r request) slow() { r.health.Slow(r.host, r.probe) }

// ended tells what became of the request, by its error and the cause with which its
// context ended.
func (r request) ended(err, cause error, elapsed time.Duration) {
	f, judged := fault.As(err)
	switch {
	case judged:
		seen, timeout := judge(f, elapsed)
		if seen.Class == failure.None {
			r.health.Answered(r.host)
		} else {
			r.health.Failed(r.host, r.probe, seen, timeout)
		}
	case err == nil:
		r.health.Answered(r.host)
	case errors.Is(cause, ErrBudget):
		seen := health.Verdict{Class: failure.Unreachable, Reason: tooLate}
		r.health.Failed(r.host, r.probe, seen, elapsed >= patience)
	}
}

// probe returns the probe of a host, nil where none is made: nobody probes the targets
// of redirects, so nothing is said of them beyond the session.
func (r *report) probe(key health.Key) health.Probe {
	switch {
	case r.prober == nil:
		return nil
	case key == r.host:
		return r.prober.registry
	case r.tokens:
		return r.prober.tokenServer(key.Host)
	}
	return nil
}

// judge says what a fault tells of the host, and whether it is a time-out. Class None =
// it answered, or failed at once, which costs nothing.
func judge(f *fault.Fault, elapsed time.Duration) (seen health.Verdict, timeout bool) {
	seen = health.Verdict{Class: f.Class, Reason: answered + fault.StatusText(f.Status), RetryAfter: f.RetryAfter}
	switch {
	case f.Class == failure.RateLimited, f.Class == failure.Unavailable && f.Status >= 500:
		return seen, false
	case f.Status != 0, f.Class != failure.Unreachable:
		return health.Verdict{}, false
	case fault.TimedOut(f.Err):
		return health.Verdict{Class: f.Class, Reason: tooLate}, true
	case elapsed >= patience:
		return health.Verdict{Class: f.Class, Reason: unheard}, true
	}
	return health.Verdict{}, false
}
