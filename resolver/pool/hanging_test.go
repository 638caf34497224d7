// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// nearby is a host that is 20 ms away, and never answers for one repository. It has answered often
// enough to know how long answers take, and has some connections.
func nearby(t *testing.T, offers string) *host {
	t.Helper()
	const round = 20 * time.Millisecond
	h := serve(t, offers, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/hangs" {
			unanswered(r)
		}
		time.Sleep(round)
		well(w, r)
	})
	h.roundTrip = 2 * round
	for range 10 {
		_, _, _ = h.get(t.Context(), "/")
	}
	atOnce(3, func(int) { _, _, _ = h.get(t.Context(), "/") })
	return h
}

// hang asks for what is never answered, for so long.
func (h *host) hang(t *testing.T, wait time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if _, _, err := h.get(ctx, "/hangs"); err == nil {
		t.Error("what hangs is answered")
	}
}

// wantSoon fails unless a request is answered within that time.
func (h *host) wantSoon(t *testing.T, most time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	start := time.Now()
	if _, _, err := h.get(ctx, "/"); err != nil || time.Since(start) > most {
		t.Errorf("it took %v, %v", time.Since(start), err)
	}
}

// A repository that hangs finds out first that the connections are dead, and goes on hanging on the
// new one. Others are answered as soon as without it.
func TestHangingRepositoryOverADeadConnection(t *testing.T) {
	for _, offers := range []string{"", "h2"} {
		synctest.Test(t, func(t *testing.T) {
			h := nearby(t, offers)
			go h.hang(t, time.Minute)
			time.Sleep(time.Second)
			h.wantSoon(t, 100*time.Millisecond)
			h.forget()
			time.Sleep(4 * time.Second)
			for range 6 {
				h.wantSoon(t, 100*time.Millisecond)
			}
			time.Sleep(time.Minute)
		})
	}
}

// Requests that hang use up no second tries of others, also where they end before they are sent again.
func TestHangingRepositoryAndSecondTries(t *testing.T) {
	for _, offers := range []string{"", "h2"} {
		for _, hint := range []time.Duration{50 * time.Millisecond, 5 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				h := nearby(t, offers)
				for range 2 * maxSecond {
					h.hang(t, hint)
					h.wantSoon(t, time.Second)
				}
				for range maxSecond { // at a time
					go h.hang(t, 10*time.Second)
				}
				time.Sleep(5 * time.Second)
				h.wantSoon(t, 100*time.Millisecond)
				h.forget()
				h.wantSoon(t, 200*time.Millisecond)
				time.Sleep(10 * time.Second)
			})
		}
	}
}

// A host that ends the connection of a second try which has won is asked over one new connection, by
// however many.
func TestConnectionOfASecondTryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := nearby(t, "h2")
		h.forget()
		h.wantSoon(t, time.Second)
		h.server.CloseClientConnections()
		synctest.Wait()
		before := h.connections()
		atOnce(maxMultiplexed, func(int) { h.want(t, 2) })
		if n := h.connections() - before; n != 1 {
			t.Errorf("%d new connections, want 1", n)
		}
	})
}

// A host whose new connections are dead as soon as they are there is not sent one with each request.
func TestNewConnectionsThatServeNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := nearby(t, "h2")
		h.forget()
		before := h.connections()
		for range maxSecond / 2 {
			h.set(func(h *host) {
				dead := &atomic.Bool{}
				h.dead = dead
				time.AfterFunc(2*h.roundTrip, func() { dead.Store(true) })
			})
			h.hang(t, 500*time.Millisecond)
		}
		if n := h.connections() - before; n > 2 { // the first one may turn out to be needless
			t.Errorf("%d new connections, want at most 2", n)
		}
	})
}
