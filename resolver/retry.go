// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	maxTries     = 3                      // of one request
	firstBackoff = 100 * time.Millisecond // doubles with each try
	maxPullDelay = 30 * time.Second       // between two tries of a pull, which has no budget of its own
)

// backoff is how long to wait after try number try, counted from 1: anything
// up to an exponentially growing bound, so that nodes do not come back
// together.
func backoff(try int) time.Duration {
	return rand.N(firstBackoff << (try - 1)) //nolint:gosec // jitter, no secret
}

// retryAfter is how long an answer asks its client to wait: seconds or a date.
// 0 when it does not say, or says it in another way.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		if seconds > math.MaxInt64/uint64(time.Second) {
			return math.MaxInt64
		}
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
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
