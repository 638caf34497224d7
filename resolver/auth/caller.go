// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/resolver/purpose"
)

const (
	// maxCallers bounds the callers of hosts whose challenge is remembered.
	maxCallers = 1024
	// maxHold is how long a caller's first requests to a host wait for the answer to the
	// very first, if that is no more than a quarter of the time that they have.
	maxHold = 500 * time.Millisecond
	// maxRemembered is how long a token server is asked that the host has named, until it names it again: whoever has that
	// name by then gets the credentials.
	maxRemembered = time.Hour
)

// callerKey is a caller of a host: the credentials that one challenge has led somewhere
// are only sent there if they are the same.
type callerKey struct {
	configuration Configuration
	host          int
	credentials   [sha256.Size]byte
}

// caller remembers what a host wants of a caller. Safe for concurrent use.
type caller struct {
	mu        sync.Mutex
	known     bool
	challenge challenge     // if it is known
	named     time.Time     // when the host has said that last
	varies    bool          // repositories differ: nothing is known of one from another
	first     chan struct{} // closed when there is the first answer; nil = nobody asks
	since     time.Time     // when that was asked for
}

// expect returns the challenge of the host for a repository that has not been asked for,
// and false if nobody knows it. The first to ask is told so, and calls answered; the others
// wait for that.
func (c *caller) expect(ctx context.Context) (expected challenge, known, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetOld()
	if c.known || c.varies {
		return c.challenge, c.known, false
	}
	if c.first == nil {
		c.first, c.since = make(chan struct{}), time.Now()
		return challenge{}, false, true
	}
	answer, hold := c.first, maxHold-time.Since(c.since)
	if left := purpose.Of(ctx).TimeLeft(ctx); left != 0 {
		hold = min(hold, left/4)
	}
	c.mu.Unlock()
	timer := time.NewTimer(hold)
	select {
	case <-answer:
	case <-timer.C:
	case <-ctx.Done():
	}
	timer.Stop()
	c.mu.Lock()
	return c.challenge, c.known, false
}

// learn takes note of a challenge of the host, or of an answer that is none.
func (c *caller) learn(seen challenge, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetOld() // a host may move its token server
	if !ok || c.known && c.challenge != seen {
		c.varies = true
	}
	c.known, c.named = !c.varies, time.Now()
	if c.challenge = seen; c.varies {
		c.challenge = challenge{}
	}
	c.end()
}

// forgetOld forgets what the host has not said for long. The caller holds the lock.
func (c *caller) forgetOld() {
	if c.known && time.Since(c.named) >= maxRemembered {
		c.known, c.challenge = false, challenge{}
	}
}

// lastNamed returns when the host has given a challenge last, for whichever repository; zero = nobody knows.
func (c *caller) lastNamed(seen challenge) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || c.challenge != seen {
		return time.Time{}
	}
	return c.named
}

// answered ends the wait for the first answer.
func (c *caller) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
}

func (c *caller) end() {
	if c.first != nil {
		close(c.first)
		c.first = nil
	}
}
