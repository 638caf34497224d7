// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

const (
	// BreakAfter is how many failures in a row, that are no time-outs, open a
	// breaker.
	BreakAfter = 3
	// FirstPause is how long a breaker stays open, give or take a quarter. It
	// doubles with each probe that fails.
	FirstPause = 5 * time.Second

	maxPause = time.Minute     // so that a registry that is back is soon asked again
	maxLimit = 5 * time.Minute // of Retry-After
)

// breaker is one host in trouble.
type breaker struct {
	failures int           // in a row, while it is closed
	opened   int           // times in a row, 0 = it is closed
	seq      uint64        // of the last opening
	class    failure.Class // of the failure that opened it
	reason   string        // the same in words, which name nobody's image
	until    time.Time     // then one probe at a time may ask
	probe    *Permit       // the one that asks, nil = none
}

// blocked reports whether the host is not to be asked. A nil breaker is closed.
func (br *breaker) blocked() bool {
	return br != nil && br.opened > 0 && (br.probe != nil || time.Now().Before(br.until))
}

// OpenError says why a host is not to be asked now.
type OpenError struct {
	Class  failure.Class // of the failure that opened the breaker
	Until  time.Time     // when the host will be asked again
	reason string
}

// Error names the time and the reason.
func (e *OpenError) Error() string {
	return fmt.Sprintf("not asked before %s: %s", e.Until.UTC().Format(time.RFC3339), e.reason)
}

// open opens a breaker for a time.
func (b *Breakers) open(br *breaker, class failure.Class, reason string, until time.Time) {
	b.seq++
	br.seq, br.failures, br.probe = b.seq, 0, nil
	br.class, br.reason, br.until = class, reason, until
}

// pause is how long a breaker stays open that opens for the nth time in a row,
// counted from 1, give or take a quarter so that nodes do not come back
// together.
func pause(n int) time.Duration {
	d := maxPause
	if n <= 4 { // 5 s × 2⁴ is beyond the bound
		d = FirstPause << (n - 1)
	}
	return min(d-d/4+jitter(d/2), maxPause)
}

// jitter is a random time below d; 0 where d is too short to be parted.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d) //nolint:gosec // jitter, no secret
}
