// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

const (
	// MaxAttempts is how often one request is sent where no other host can
	// answer instead.
	MaxAttempts = 3
	// FirstBackoff bounds the wait before the second try. It doubles with each
	// try.
	FirstBackoff = 100 * time.Millisecond

	maxPullDelay = 30 * time.Second // between two tries of a pull, which has no budget of its own
)

// retry sends a request again after a temporary fault, if no other host can
// answer instead and there is time to wait.
type retry struct {
	next     http.RoundTripper
	redactor *redact.Redactor
}

// RoundTrip implements http.RoundTripper.
func (r *retry) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	p := purpose.Of(ctx)
	for try := 1; ; try++ {
		resp, err := r.next.RoundTrip(req)
		f, failed := fault.As(err)
		if !failed {
			return resp, err
		}
		switch again := f.Temporary && try < maxAttempts(p) && rewindable(req); {
		case again && sparesTries(p, f):
			f = r.spared(f)
		case again:
			wait := max(f.RetryAfter, backoff(try))
			if canWait(ctx, p, wait) {
				if err := sleep(ctx, wait); err != nil {
					return nil, err
				}
				if req, err = rewind(req); err != nil {
					return nil, err
				}
				continue
			}
			if f.RetryAfter > 0 {
				f = r.annotate(f, fmt.Sprintf("Retry-After %v is too long to wait for", f.RetryAfter))
			}
		}
		if try > 1 {
			f = r.annotate(f, fmt.Sprintf("%d tries", try))
		}
		return nil, f
	}
}

// spared returns the fault as one that another caller would have tried again after.
func (r *retry) spared(f *fault.Fault) *fault.Fault {
	marked := *f
	marked.Spared = true
	return &marked
}

// annotate returns the fault with a remark behind its text.
func (r *retry) annotate(f *fault.Fault, remark string) *fault.Fault {
	annotated := *f
	annotated.Err = r.redactor.Wrap(fmt.Sprintf("%v (%s)", f.Err, remark), f.Err)
	return &annotated
}

// maxAttempts is how often a request may be sent: more than once only where somebody
// waits for it, and no other host can answer instead.
func maxAttempts(p purpose.Purpose) int {
	if p.Kind != purpose.Other && p.Last && !p.Once {
		return MaxAttempts
	}
	return 1
}

// sparesTries reports whether a registry that limits requests is left alone at once: it does
// not say when it would answer, and the caller has something else to use.
func sparesTries(p purpose.Purpose, f *fault.Fault) bool {
	return f.Class == failure.RateLimited && f.RetryAfter == 0 && p.CanFailFast(f.Class)
}

// canWait reports whether there is time to wait that long for another try.
func canWait(ctx context.Context, p purpose.Purpose, wait time.Duration) bool {
	if p.Kind != purpose.Check && wait > maxPullDelay {
		return false
	}
	left := p.TimeLeft(ctx)
	return left == 0 || wait < left
}

// backoff is how long to wait after try number try, counted from 1: anything
// up to an exponentially growing bound, so that nodes do not come back
// together.
func backoff(try int) time.Duration {
	return rand.N(FirstBackoff << (try - 1)) //nolint:gosec // jitter, no secret
}

// sleep waits, or returns the context's error as soon as it ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func rewindable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// rewind returns the request to send again.
func rewind(req *http.Request) (*http.Request, error) {
	again := req.Clone(req.Context())
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		again.Body = body
	}
	return again, nil
}
