// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health knows which hosts are in trouble, so that not every request has
// to find out by itself.
//
// A host is in trouble when it says so to the node: requests only raise a suspicion,
// and a neutral probe decides. What a request saw may be the fault of its repository,
// its caller, its budget or its redirect, and is remembered for those alone.
//
//	Breakers   shared by all: hosts that a probe found in trouble
//	View       of one session: the same, what its own requests saw, and what those of
//	           the same scope, its repository and caller, saw before
package health

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/internal/registryname"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

const (
	// ProbeTime is how long a host may be silent in a probe: before it accepts the
	// connection, before TLS is set up, before it answers. It is the node's, whatever
	// budget the suspicion comes from.
	ProbeTime = time.Second
	// Fresh is how old a verdict may be that counts without another probe.
	Fresh = time.Second
	// MaxWait bounds how long checks wait for a probe, from its beginning, and for all
	// probes together: see Waits.
	MaxWait = 500 * time.Millisecond
	// FirstPause is how long a host is left alone by those whom it has failed, and before
	// it is probed again for a request that still waits, give or take a quarter. It doubles
	// with each failure.
	FirstPause = 5 * time.Second
	// AskedLately is how long a host in trouble is remembered after the last request that
	// wanted to ask it.
	AskedLately = 5 * time.Minute
	// BreakAfter is how many failures in a row, that are no time-outs, keep a session
	// from asking a host.
	BreakAfter = 3

	// probeBound is for hosts that always give another sign of life: a probe makes two requests at most,
	// of six steps (the name, the connection, TLS and CONNECT of a proxy, TLS, the answer).
	probeBound = 12 * ProbeTime

	maxPause = time.Minute     // so that a registry that is back is soon found
	maxLimit = 5 * time.Minute // of Retry-After
	maxName  = 300             // of a Key's host: more than a DNS name with scheme and port may have
)

// Key names a host, and the way in which it is asked. Each way has a health of its own: a
// balancer may answer one path or one spelling of a name with 503, and who has another
// certificate authority may have an answer where others wait.
type Key struct {
	Host string // scheme://host[:port]
	// How stands for what requests and probes ask, and with which settings, those of the
	// configured host; "" = as without any configuration.
	How string
	// For is Host of the configured host that led there, by its challenge or a redirect;
	// "" = the host is configured itself. So no registry speaks for the token server of
	// another.
	For string
	// Tokens says that it is asked for tokens, be it at the configured host's own address:
	// one of the two may hang behind that where the other answers.
	Tokens bool
	// Led says that somebody wants those tokens to whom the configured host redirects, and has chosen the
	// address: what is limited or hangs there, or is well, says nothing of the host's own token server.
	Led bool
}

// KeyOf is the key of a host without any configuration, the same for all of its names. Host is
// shown: a challenge can name one of any bytes.
func KeyOf(scheme, host string) Key {
	return Key{Host: scheme + "://" + registryname.Address(scheme, registryname.Text(host))}
}

// Probe asks a host, without any caller's credentials, whether it is well. It returns
// when its context ends, which says nothing about the host.
type Probe func(context.Context) Verdict

// Waits says when a check ends all of its waits for probes. They begin when it is first called.
type Waits func() time.Time

// NewWaits returns the Waits of a check: MaxWait, or a quarter of the time that it has left when
// they begin, whichever is less; for all hosts together. 0 = it has no bound.
func NewWaits(left func() time.Duration) Waits {
	return sync.OnceValue(func() time.Time {
		wait := MaxWait
		if left := left(); left != 0 {
			wait = min(wait, left/4)
		}
		return time.Now().Add(wait)
	})
}

// Verdict is what a probe found.
type Verdict struct {
	Class  failure.Class // of the trouble; None = the host is well, or fails at no cost
	Reason string        // the same in words

	// Unknown says that the probe could not ask the host, or has not waited for it, and has found nothing.
	Unknown bool

	// Recovered says that the host has come back while the probe lasted, where it is well: it was
	// silent for MaxWait or longer in one step.
	Recovered bool
}

// Failure is what a request saw of a host.
type Failure struct {
	Class  failure.Class
	Reason string // the same in words, which name nobody's image

	// RetryAfter is what a host that limits requests asks for, 0 = nothing.
	RetryAfter time.Duration

	// Timeout says that the host kept the request waiting, since Began.
	Timeout bool
	Began   time.Time

	// Silence is how long the host had kept it waiting when the time of the check was
	// used up: one with more time might have got an answer. 0 = that was not why.
	Silence time.Duration
}

// OpenError says why a host is not to be asked now.
type OpenError struct {
	Class  failure.Class // of the failure that put it into trouble
	Since  time.Time     // when the host got into trouble; zero = it is not, as a whole
	Until  time.Time     // when it will be asked again, where it is not in trouble as a whole
	reason string        // in words, which name nobody's image
}

// Error names the time and the reason.
func (e *OpenError) Error() string {
	if e.Since.IsZero() {
		return fmt.Sprintf("not asked before %s: %s", e.Until.UTC().Format(time.RFC3339), e.reason)
	}
	return fmt.Sprintf("not asked, in trouble since %s: %s", e.Since.UTC().Format(time.RFC3339), e.reason)
}

// ownTokens is the key of tokens at the address of a configured host.
func (k Key) ownTokens() Key {
	k.For, k.Tokens = k.Host, true
	return k
}

// partOf reports whether a key is another one, or what a configured host of that key led to.
func (k Key) partOf(host Key) bool {
	return k == host || host.For == "" && k.For == host.Host && k.How == host.How
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
