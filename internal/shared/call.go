// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"context"
	"time"
)

// Group coalesces calls: callers with the same key share one piece of work and
// its result. The zero value is ready, and safe for concurrent use. It must not
// be copied.
//
// golang.org/x/sync/singleflight does the same for work that always runs to its
// end. It cannot tell the work that its last caller has left, so a check or a
// pull for pods that are gone would go on; and until that work ends, new callers
// join it.
type Group[K comparable, A, V any] struct {
	calls Map[K, *call[V]]
}

// Work is what callers share, in two steps. Callers join the first one only:
// the second acts on an answer that would be an old one to those who come later.
type Work[A, V any] struct {
	// Ask is joined while it runs, by those who come no later than Within after
	// it began. It may call answered as often as it likes once what it asks for has been
	// answered, and it still has something to do: it is not joined from then on.
	Ask    func(ctx context.Context, answered func()) A
	Within time.Duration
	// Act always follows, with the result of Ask.
	Act func(context.Context, A) (V, error)
}

// call is one piece of work.
type call[V any] struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when value and err are set
	value  V
	err    error
}

// Do runs the work, or joins the work of that key which is under way and can be
// joined, and tells which. The work runs on a context of its own: it has the
// values of the context of the caller that began it, and ends when the last
// waiter has left.
//
// A waiter whose context ends leaves with the context's error and does not
// disturb the others. The last one cancels the work and returns when it has
// ended, as if it had not been shared. Nobody joins work that all have left: the
// next caller begins anew.
func (g *Group[K, A, V]) Do(ctx context.Context, key K, work Work[A, V]) (value V, joined bool, err error) {
	if err := ctx.Err(); err != nil {
		return value, false, err // nothing is begun for who is gone
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c, created, leave := g.calls.Acquire(key, func() *call[V] {
		return &call[V]{cancel: cancel, done: make(chan struct{})}
	})
	if created {
		go func() {
			defer cancel()
			notJoined := func() { g.calls.Forget(key, c) }
			late := time.AfterFunc(work.Within, notJoined)
			answer := work.Ask(own, notJoined)
			late.Stop()
			notJoined()
			c.value, c.err = work.Act(own, answer)
			close(c.done)
		}()
	} else {
		cancel()
	}
	select {
	case <-c.done:
		leave()
		return c.value, !created, c.err
	case <-ctx.Done():
		if leave() {
			c.cancel()
			<-c.done
		}
		return value, !created, ctx.Err()
	}
}
