// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// shortest bounds how often it looks again, and has hosts probed.
const shortest = 2 * time.Second

// alarm goes off when it was not stopped for so long, and another host can give the content. Those
// that were in trouble may be well by then: they are probed in the middle of that time. While all of
// them are in trouble, it looks again: there is nobody else to wait for.
type alarm struct {
	purpose purpose.Purpose
	ring    func()

	mu     sync.Mutex
	timer  *time.Timer
	after  time.Duration
	due    time.Time // when the timer is looked at; zero = never
	probed bool      // the other hosts, since the time began
}

// newAlarm returns an alarm that is not set.
func newAlarm(p purpose.Purpose, ring func()) *alarm { return &alarm{purpose: p, ring: ring} }

// set begins its time.
func (a *alarm) set(after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.after, a.probed = after, false
	a.wait(after / 2)
}

// stop ends it.
func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
	a.due = time.Time{}
}

func (a *alarm) wait(d time.Duration) {
	a.due = time.Now().Add(d)
	if a.timer == nil {
		a.timer = time.AfterFunc(d, a.look)
		return
	}
	a.timer.Reset(d)
}

// look is called when the timer ends, be it one that was stopped too late.
func (a *alarm) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.due.IsZero() || time.Now().Before(a.due):
	case !a.probed:
		a.probed = true
		a.purpose.ProbeNext()
		a.wait(a.after - a.after/2)
	case a.purpose.CanMove():
		a.ring()
	default:
		a.purpose.ProbeNext()
		a.wait(max(a.purpose.Patience/8, shortest))
	}
}
