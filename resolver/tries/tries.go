// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tries decides whether a request is made again after a fault, by the terms of whoever
// waits for its answer: the purpose and the time of their context.
package tries

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
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

// Again waits until the caller of ctx is to try again after a fault of try number try, counted from
// 1. The error is why it is not: the fault, with what became of the tries, or that of ctx.
func Again(ctx context.Context, f *fault.Fault, try int, jitter float64) error {
	p := purpose.Of(ctx)
	if f.Temporary && try < maxAttempts(p) && !sparesTries(p, f) {
		wait := max(f.RetryAfter, backoff(try, jitter))
		if canWait(ctx, p, wait) {
			return sleep(ctx, wait)
		}
		if f.RetryAfter > 0 {
			f = annotate(f, fmt.Sprintf("Retry-After %v is too long to wait for", f.RetryAfter))
		}
	}
	if try > 1 {
		f = annotate(f, fmt.Sprintf("%d tries", try))
	}
	return f
}

// annotate returns the fault with a remark behind its text.
func annotate(f *fault.Fault, remark string) *fault.Fault {
	annotated := *f
	annotated.Err = fmt.Errorf("%w (%s)", f.Err, remark)
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

// Jitter is what part of the longest wait for another try is waited, below 1.
func Jitter() float64 { return rand.Float64() } //nolint:gosec // no secret

// backoff is how long to wait after try number try, counted from 1: a part of
// an exponentially growing bound, so that nodes do not come back
// together.
func backoff(try int, jitter float64) time.Duration {
	return time.Duration(jitter * float64(FirstBackoff<<(try-1)))
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
