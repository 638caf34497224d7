// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

// closeLimit bounds the wait for work that does not end when it is told to, because a
// read of a file hangs.
const closeLimit = 10 * time.Second

// detached is work that belongs to the daemon and to no request: observations, and
// pulls that outlive who asked for them. The zero value is ready.
type detached struct {
	mu      sync.Mutex
	closed  bool
	running map[*context.CancelFunc]bool
	ended   sync.WaitGroup
}

// start runs work in a goroutine of its own, and reports whether it does: not once
// all is closed. The context of the work is ctx, which should not be a request's, and
// ends by close too.
func (d *detached) start(ctx context.Context, run func(context.Context)) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	own, cancel := context.WithCancel(ctx)
	if d.running == nil {
		d.running = map[*context.CancelFunc]bool{}
	}
	d.running[&cancel] = true
	d.ended.Go(func() {
		defer func() {
			cancel()
			d.mu.Lock()
			delete(d.running, &cancel)
			d.mu.Unlock()
		}()
		run(own)
	})
	return true
}

// close ends all work, and lets none begin any more. It waits until it has ended, for
// closeLimit at most; the error says that some has not.
func (d *detached) close() error {
	d.mu.Lock()
	d.closed = true
	for cancel := range d.running {
		(*cancel)()
	}
	d.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		d.ended.Wait()
		close(ended)
	}()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-ended:
		return nil
	case <-limit.C:
		return errors.New("observations of pulls, or pulls in the background, do not end")
	}
}
