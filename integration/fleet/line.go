// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import "time"

// line serves one after the other: its work is done when all before it is.
type line struct{ free time.Time }

// wait is how long new work waits for what was taken before.
func (l *line) wait(now time.Time) time.Duration { return max(0, l.free.Sub(now)) }

// take adds work of some seconds, and returns how long it is until it is done.
func (l *line) take(now time.Time, seconds float64) time.Duration {
	l.free = now.Add(l.wait(now)).Add(time.Duration(seconds * float64(time.Second)))
	return l.free.Sub(now)
}
