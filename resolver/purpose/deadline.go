// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package purpose

import (
	"context"
	"sync"
	"time"
)

// Deadline is when the last of several callers gives up, who wait for one thing
// together. It only moves out, as more of them join. Safe for concurrent use.
type Deadline struct {
	mu sync.Mutex
	at time.Time // zero = never
}

// NewDeadline returns the deadline of a first caller's context.
func NewDeadline(ctx context.Context) *Deadline {
	at, _ := ctx.Deadline()
	return &Deadline{at: at}
}

// Join moves the deadline out to that of another caller's context.
func (d *Deadline) Join(ctx context.Context) {
	at, bounded := ctx.Deadline()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !bounded || !d.at.IsZero() && at.After(d.at) {
		d.at = at
	}
}

// At returns the deadline, and false if there is none.
func (d *Deadline) At() (at time.Time, bounded bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at, !d.at.IsZero()
}
