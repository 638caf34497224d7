// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/store"
)

func TestFlightIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			f      flights
			works  atomic.Int32
			joined atomic.Int32
		)
		work := func(ctx context.Context) (Outcome, error) {
			works.Add(1)
			time.Sleep(time.Second)
			return Outcome{ImageID: "id"}, ctx.Err()
		}
		for range 100 {
			go func() {
				o, j, err := f.do(t.Context(), flightKey{name: "a"}, work)
				if err != nil || o.ImageID != "id" {
					t.Errorf("%+v, %v", o, err)
				}
				if j {
					joined.Add(1)
				}
			}()
		}
		// Others do not share.
		go func() { _, _, _ = f.do(t.Context(), flightKey{name: "a", caller: "x"}, work) }()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if works.Load() != 2 || joined.Load() != 99 {
			t.Errorf("%d works, %d joined", works.Load(), joined.Load())
		}
		if len(f.all) != 0 {
			t.Errorf("%d flights are left behind", len(f.all))
		}
	})
}

// A caller that goes away never fails the others; the last one to leave stops
// the work.
func TestFlightOutlivesItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights
		stopped := make(chan error, 1)
		work := func(ctx context.Context) (Outcome, error) {
			select {
			case <-time.After(time.Second):
				stopped <- nil
			case <-ctx.Done():
				stopped <- ctx.Err()
			}
			return Outcome{ImageID: "id"}, ctx.Err()
		}
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithCancel(t.Context())
		results := make(chan error, 2)
		for _, ctx := range []context.Context{first, second} {
			go func() {
				_, _, err := f.do(ctx, flightKey{}, work)
				results <- err
			}()
			synctest.Wait()
		}
		leave()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller got %v", err)
		}
		if err := <-results; err != nil {
			t.Errorf("the second caller got %v", err)
		}
		if err := <-stopped; err != nil {
			t.Errorf("the work was stopped: %v", err)
		}

		first, leave = context.WithCancel(t.Context())
		go func() {
			_, _, err := f.do(first, flightKey{}, work)
			results <- err
		}()
		synctest.Wait()
		leave()
		if err := <-stopped; !errors.Is(err, context.Canceled) {
			t.Errorf("the abandoned work ended with %v", err)
		}
		<-results
		leaveToo()
	})
}

// Whoever comes after an abandoned flight does not get its cancellation.
func TestAbandonedFlightIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights
		slow := func(ctx context.Context) (Outcome, error) {
			<-ctx.Done()
			time.Sleep(time.Second) // takes its time to end
			return Outcome{}, ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _, _ = f.do(ctx, flightKey{}, slow) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		o, joined, err := f.do(t.Context(), flightKey{}, func(context.Context) (Outcome, error) { return Outcome{ImageID: "id"}, nil })
		if joined || err != nil || o.ImageID != "id" {
			t.Errorf("%+v, joined %v, %v", o, joined, err)
		}
		time.Sleep(2 * time.Second)
	})
}

func TestStormIsOneCheckAndOnePull(t *testing.T) {
	n := &node{remote: second}
	gate := make(chan struct{})
	n.onPull = func() { <-gate }
	e := n.engine("# none")
	e.Observe = nil
	const pods = 50
	results := make(chan error, pods)
	ensure := func(caller store.Fingerprint) {
		req := n.request(nil)
		req.Caller = caller
		_, err := e.Ensure(t.Context(), req)
		results <- err
	}
	for range pods {
		go ensure(alice)
	}
	for waiting := 0; waiting < pods; {
		e.flights.mu.Lock()
		waiting = 0
		for _, w := range e.flights.all {
			waiting = w.waiters
		}
		e.flights.mu.Unlock()
	}
	close(gate)
	for range pods {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n.checks != 1 || n.pulls != 1 {
		t.Errorf("%d checks, %d pulls", n.checks, n.pulls)
	}
}
