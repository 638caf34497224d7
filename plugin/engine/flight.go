// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"sync"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/store"
)

// flightKey is what requests must have in common to share one check and one
// pull. The caller is part of it: nobody rides on another's credentials.
type flightKey struct {
	name        string
	caller      store.Fingerprint
	credentials string // tells apart what the fingerprint does not: the host they are for
	snapshotter string
	directives  policy.Directives
}

// flights are the pieces of work that requests share. The zero value is ready.
type flights struct {
	mu  sync.Mutex
	all map[flightKey]*flight
}

// flight is one piece of work. It runs on a context of its own, which ends when
// the last waiter has left.
type flight struct {
	cancel  context.CancelFunc
	waiters int

	done chan struct{} // closed when outcome and err are set
	o    Outcome
	err  error
}

// do runs the work, or joins the work of that key that is under way, and tells
// which. A waiter whose context ends leaves with the context's error, and does
// not disturb the others.
func (f *flights) do(ctx context.Context, key flightKey, work func(context.Context) (Outcome, error)) (o Outcome, joined bool, err error) {
	f.mu.Lock()
	w, joined := f.all[key]
	if !joined {
		if f.all == nil {
			f.all = map[flightKey]*flight{}
		}
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		w = &flight{cancel: cancel, done: make(chan struct{})}
		f.all[key] = w
		go func() {
			defer cancel()
			w.o, w.err = work(own)
			f.forget(key, w)
			close(w.done)
		}()
	}
	w.waiters++
	f.mu.Unlock()

	select {
	case <-w.done:
		return w.o, joined, w.err
	case <-ctx.Done():
		if f.leave(key, w) {
			// As without sharing: a request ends when its work has ended.
			w.cancel()
			<-w.done
		}
		return Outcome{}, joined, ctx.Err()
	}
}

// leave takes a waiter off a flight, and tells whether it was the last. Then
// nobody can join any more: whoever comes next starts anew.
func (f *flights) leave(key flightKey, w *flight) (last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.waiters--; w.waiters > 0 {
		return false
	}
	if f.all[key] == w {
		delete(f.all, key)
	}
	return true
}

func (f *flights) forget(key flightKey, w *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all[key] == w {
		delete(f.all, key)
	}
}
