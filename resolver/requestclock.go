// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"sync"
	"time"
)

// requestClock measures a request from when its headers were written: a connection is no
// slower for GET than for HEAD. Safe for concurrent use.
type requestClock struct {
	deadline time.Time
	half     func() // is called when half of the time is over
	end      func() // is called shortly before the deadline

	mu      sync.Mutex
	stopped bool
	slow    bool // half was called
	timers  [2]*time.Timer
}

// start starts the clock, again where the request goes out on another connection.
func (c *requestClock) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped { // by now: hooks may run after their request
		return
	}
	c.stopTimers()
	left := time.Until(c.deadline)
	c.timers = [2]*time.Timer{time.AfterFunc(left/2, c.halfOver), time.AfterFunc(left-left/16, c.end)}
}

func (c *requestClock) halfOver() {
	c.mu.Lock()
	c.slow = !c.stopped
	slow := c.slow
	c.mu.Unlock()
	if slow {
		c.half()
	}
}

// stop stops the clock, and reports whether half of the time was over.
func (c *requestClock) stop() (slow bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.stopTimers()
	return c.slow
}

func (c *requestClock) stopTimers() {
	for _, timer := range c.timers {
		if timer != nil {
			timer.Stop()
		}
	}
}
