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
// for a host's share of it, is used up. Silence until then is the host's; the end
// of a context for another cause says nothing about it.
var ErrBudget = fmt.Errorf("the time for the check is used up: %w", context.DeadlineExceeded)

// patience is how long a host may need before silence within a check's budget
// is a time-out.
const patience = 500 * time.Millisecond

// report tells the health of the host, by the permit of the request, what became
// of each try.
type report struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r *report) RoundTrip(req *http.Request) (*http.Response, error) {
	permit := purpose.Of(req.Context()).Permit
	permit.Begin()
	start := time.Now()
	resp, err := r.next.RoundTrip(req)
	f, judged := fault.As(err)
	switch {
	case err == nil:
		permit.Answered()
	case judged && f.Status != 0:
		reportStatus(permit, f)
	case judged:
		reportNoAnswer(permit, f, time.Since(start))
	case errors.Is(context.Cause(req.Context()), ErrBudget):
		permit.Failed(failure.Unreachable, "it did not answer in time", time.Since(start) >= patience)
	}
	return resp, err
}

// reportStatus reports an answer that is a fault.
func reportStatus(permit *health.Permit, f *fault.Fault) {
	reason := "it answered " + fault.StatusText(f.Status)
	switch {
	case f.Class == failure.RateLimited:
		permit.Limited(f.RetryAfter, reason)
	case f.Class == failure.Unavailable && f.Status >= 500:
		permit.Failed(f.Class, reason, false)
	default:
		permit.Answered()
	}
}

// reportNoAnswer reports that there was none.
func reportNoAnswer(permit *health.Permit, f *fault.Fault, elapsed time.Duration) {
	switch {
	case f.Class != failure.Unreachable:
		permit.Answered()
	case fault.TimedOut(f.Err):
		permit.Failed(f.Class, "it did not answer in time", true)
	case elapsed >= patience:
		permit.Failed(f.Class, "it could not be reached", true) // which took as long
	default:
		permit.ConnFailed(f.Class, "it could not be reached")
	}
}
