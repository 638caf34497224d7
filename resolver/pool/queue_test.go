// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A node that starts asks for all its images at once: by HTTP/2 over one connection.
func TestOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, "h2", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(20 * time.Millisecond)
			well(w, r)
		})
		atOnce(60, func(int) { h.want(t, 2) })
		if n := h.connections(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
		// The same once that connection has ended.
		h.server.CloseClientConnections()
		synctest.Wait()
		atOnce(60, func(int) { h.want(t, 2) })
		if n := h.connections(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	})
}

// Hosts that speak HTTP/1.1 alone are sent 12 requests at a time. There may be 16
// connections: net/http gives a request one that comes free while another is made.
func TestBoundedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			now += n
			most = max(most, now)
		}
		h := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
			count(1)
			defer count(-1)
			time.Sleep(20 * time.Millisecond)
			well(w, r)
		})
		h.roundTrip = 40 * time.Millisecond
		atOnce(60, func(int) { h.want(t, 1) })
		if n := h.connections(); n > 16 || most != 12 {
			t.Errorf("%d connections, %d requests at a time, want at most 16 and 12", n, most)
		}
	})
}

// Requests that wait are sent in order of arrival, but for those whose callers leave.
func TestQueueInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			mu     sync.Mutex
			served []string
		)
		blocked := make(chan struct{})
		h := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/blocks" {
				<-blocked
			}
			mu.Lock()
			served = append(served, r.URL.Path)
			mu.Unlock()
			well(w, r)
		})
		h.want(t, 1)
		var all sync.WaitGroup
		for range maxSingle {
			all.Go(func() { _, _, _ = h.get(t.Context(), "/blocks") })
		}
		synctest.Wait()
		var queue Queue
		leaving, leave := context.WithCancel(WithQueue(t.Context(), &queue))
		for i := range 5 {
			ctx := t.Context()
			if i == 2 {
				ctx = leaving
			}
			all.Go(func() {
				_, _, err := h.get(ctx, fmt.Sprint("/", i))
				if left := i == 2; errors.Is(err, context.Canceled) != left || left && !queue.Waiting() {
					t.Errorf("%d: got %v, waiting %v", i, err, queue.Waiting())
				}
			})
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		for range maxSingle {
			blocked <- struct{}{} // one place at a time
			synctest.Wait()
		}
		all.Wait()
		served = slices.DeleteFunc(served[1:], func(path string) bool { return path == "/blocks" })
		if want := []string{"/0", "/1", "/3", "/4"}; !slices.Equal(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
	})
}

// A repository that hangs holds others up for half a second, whose time does not count
// as the host's.
func TestHangingRequestsGivePlace(t *testing.T) {
	for _, offers := range []string{"", "h2"} {
		synctest.Test(t, func(t *testing.T) {
			h := serve(t, offers, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/hangs" {
					unanswered(r)
				}
				well(w, r)
			})
			_, _, _ = h.get(t.Context(), "/")
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range maxMultiplexed {
				all.Go(func() { _, _, _ = h.get(ctx, "/hangs") })
			}
			synctest.Wait()
			var queue Queue
			start := time.Now()
			if _, _, err := h.get(WithQueue(t.Context(), &queue), "/"); err != nil {
				t.Error(err)
			}
			if waited := time.Since(start); waited > maxWait || queue.Admitted().Sub(start) != waited {
				t.Errorf("it waited for %v, on its way after %v", waited, queue.Admitted().Sub(start))
			}
			cancel()
			all.Wait()
			if n := h.lane().taken(); n != 0 {
				t.Errorf("%d places are taken", n)
			}
		})
	}
}

// Nor does a request spend all of its time waiting for the first connection, which another one makes: that may be lost on its way.
func TestFirstConnectionThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, "h2", well)
		h.set(func(h *host) { h.roundTrip = time.Minute })
		lost, give := context.WithCancel(t.Context())
		go func() { _, _, _ = h.get(lost, "/") }()
		synctest.Wait()
		h.set(func(h *host) { h.roundTrip = 0 })
		for left, most := range map[time.Duration]time.Duration{200 * time.Millisecond: 100 * time.Millisecond, time.Minute: maxScout} {
			queue, start := Queue{Left: left}, time.Now()
			ctx, cancel := context.WithTimeout(WithQueue(t.Context(), &queue), left)
			_, _, err := h.get(ctx, "/")
			cancel()
			if waited := time.Since(start); err != nil || waited > most {
				t.Errorf("with %v left it waited for %v, %v", left, waited, err)
			}
			h.server.CloseClientConnections()
			synctest.Wait()
		}
		give()
	})
}

func (h *host) lane() *lane { return h.pool.lanes.values()[0] }

func (l *lane) taken() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.places.taken
}
