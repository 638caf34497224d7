// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package purpose

import (
	"context"
	"sync"
	"time"
)

// Asked is whom several callers wait for, who wait for one thing together: each of them goes by
// its own purpose and time. Safe for concurrent use.
type Asked struct {
	mu    sync.Mutex
	host  AskedHost
	moved chan struct{}
}

// AskedHost is a host that is asked on behalf of several callers. Their contexts say what each of
// them asks for.
type AskedHost interface {
	// Skip says why a caller does not wait for the host: it is in trouble, and the caller has
	// something else to use. nil = the caller waits.
	Skip(ctx context.Context) error

	// Late says why a caller, who has waited since then, waits for the host no longer: no connection to
	// it has come about in the time that there is for its dial. nil = the caller waits.
	Late(ctx context.Context, since time.Time) error

	// GaveUp takes note that a caller has waited since then, until its context ended.
	GaveUp(ctx context.Context, since time.Time)
}

// NewAsked returns an Asked that asks nobody yet.
func NewAsked() *Asked { return &Asked{moved: make(chan struct{})} }

// Begin takes note that a host is asked, until end is called. A nil Asked does nothing.
func (a *Asked) Begin(host AskedHost) (end func()) {
	if a == nil {
		return func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.host = host
	a.move()
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.host = nil
	}
}

// Tell has those who wait look at the host once more. A nil Asked does nothing.
func (a *Asked) Tell() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.move()
}

func (a *Asked) move() {
	close(a.moved)
	a.moved = make(chan struct{})
}

// Host returns the host that is asked now, nil for none, and what is closed when the next one is, or it has
// become late.
func (a *Asked) Host() (host AskedHost, moved <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.host, a.moved
}
