// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health knows which hosts are in trouble, so that not every request has
// to find out by itself.
//
// A host is in trouble when it says so to the node: requests only raise a suspicion,
// and a neutral probe decides. What a request saw may be the fault of its repository,
// its caller, its budget or its redirect, and stays with its session.
//
//	Breakers   shared by all: hosts that a probe found in trouble
//	View       of one session: the same, and what its own requests saw
package health

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pullwarden/pullwarden/internal/registryname"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

const (
	// ProbeTime is how long a probe may take. It is the node's, whatever budget the
	// suspicion comes from.
	ProbeTime = 2 * time.Second
	// FirstPause is how long a host in trouble is left alone before it is probed
	// again, give or take a quarter. It doubles with each probe that fails.
	FirstPause = 5 * time.Second
	// AskedLately is how long a host in trouble is probed after the last request that
	// wanted to ask it. Then it is forgotten.
	AskedLately = 5 * time.Minute
	// BreakAfter is how many failures in a row, that are no time-outs, keep a session
	// from asking a host.
	BreakAfter = 3

	maxPause = time.Minute     // so that a registry that is back is soon found
	maxLimit = 5 * time.Minute // of Retry-After
)

// Key names a host.
type Key struct {
	Host string // scheme://host[:port]
	// For is the configured host that led there, by its challenge or a redirect; "" =
	// the host is configured itself. So no registry speaks for the token server of
	// another.
	For string
}

// KeyOf is the key of a configured host, the same for all of its names.
func KeyOf(scheme, host string) Key {
	return Key{Host: scheme + "://" + registryname.Address(scheme, host)}
}

// Probe asks a host, without any caller's credentials, whether it is well. It returns
// when its context ends.
type Probe func(context.Context) Verdict

// Verdict is what a probe found.
type Verdict struct {
	Class      failure.Class // of the trouble; None = the host is well, or fails at no cost
	Reason     string        // the same in words
	RetryAfter time.Duration // what a host that limits requests asks for, 0 = nothing
}

// OpenError says why a host is not to be asked now.
type OpenError struct {
	Class  failure.Class // of the failure that put it into trouble
	Until  time.Time     // when it will be asked again
	reason string        // in words, which name nobody's image
}

// Error names the time and the reason.
func (e *OpenError) Error() string {
	return fmt.Sprintf("not asked before %s: %s", e.Until.UTC().Format(time.RFC3339), e.reason)
}

// pause is how long a host is left alone after its nth failure in a row, counted from
// 1, give or take a quarter so that nodes do not come back together.
func pause(n int) time.Duration {
	d := maxPause
	if n <= 4 { // 5 s × 2⁴ is beyond the bound
		d = FirstPause << (n - 1)
	}
	return min(d-d/4+jitter(d/2), maxPause)
}

// limit is how long a host is left alone that asks for that. 0 = it does not say for
// how long.
func limit(after time.Duration) time.Duration {
	if after <= 0 {
		after = FirstPause
	}
	after = min(after, maxLimit)
	return min(after+jitter(after/4), maxLimit)
}

// jitter is a random time below d, 0 if d is not more than that.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d) //nolint:gosec // jitter, no secret
}
