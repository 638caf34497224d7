// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// maxDeciding bounds the observations that ask a registry at the same time. A node
	// pulls far fewer images at once.
	maxDeciding = 64
	// closeLimit bounds the wait for observations that do not end when they are told
	// to, because a read of a file hangs.
	closeLimit = 10 * time.Second
)

// observations are those under way. The zero value is ready.
type observations struct {
	mu       sync.Mutex
	closed   bool
	running  map[*context.CancelFunc]bool
	ended    sync.WaitGroup
	deciding int
}

// start runs an observation in a goroutine of its own, and reports whether it does:
// not once they are closed. Its context has the values of ctx, and ends by close.
func (o *observations) start(ctx context.Context, run func(context.Context)) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if o.running == nil {
		o.running = map[*context.CancelFunc]bool{}
	}
	o.running[&cancel] = true
	o.ended.Go(func() {
		defer func() {
			cancel()
			o.mu.Lock()
			delete(o.running, &cancel)
			o.mu.Unlock()
		}()
		run(own)
	})
	return true
}

// decide lets an observation decide, unless too many do. It must be followed by
// decided if it returns true.
func (o *observations) decide() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deciding >= maxDeciding {
		return false
	}
	o.deciding++
	return true
}

func (o *observations) decided() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deciding--
}

// close ends all observations, and lets none begin any more. It waits until they
// have ended, for closeLimit at most; the error says that some have not.
func (o *observations) close() error {
	o.mu.Lock()
	o.closed = true
	for cancel := range o.running {
		(*cancel)()
	}
	o.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		o.ended.Wait()
		close(ended)
	}()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-ended:
		return nil
	case <-limit.C:
		return errors.New("observations of pulls do not end")
	}
}
