// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// forgotten is a connection that a balancer has forgotten, once it is dead: whatever is
// sent on it is lost, and nobody says so.
type forgotten struct {
	net.Conn
	dead *atomic.Bool
	end  func()
}

func (c *forgotten) Close() error {
	c.end()
	return c.Conn.Close()
}

func (c *forgotten) Write(p []byte) (int, error) {
	if c.dead.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// forget makes all connections so far dead.
func (h *host) forget() {
	h.set(func(h *host) {
		h.dead.Store(true)
		h.dead = &atomic.Bool{}
	})
}

const roundTrip = time.Second

// distant is a host that is one round trip away; new connections take two more.
func distant(t *testing.T, offers string, asked *atomic.Int64) *host {
	t.Helper()
	h := serve(t, offers, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		time.Sleep(roundTrip)
		well(w, r)
	})
	h.roundTrip = 2 * roundTrip
	return h
}

// A connection that died silently costs three round trips, once, and a quarter of one by
// which an answer may be late.
func TestDeadConnection(t *testing.T) {
	for major, offers := range []string{1: "", 2: "h2"} {
		if major == 0 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			h := distant(t, offers, &asked)
			took := func(method, content string) time.Duration {
				start := time.Now()
				if _, got, err := h.send(t.Context(), method, "/", content); err != nil || got != "well" {
					t.Errorf("got %q, %v", got, err)
				}
				return time.Since(start).Round(roundTrip / 10)
			}
			const usual = 8 // requests, until it is known how much their times differ
			for i, want := range append([]time.Duration{3 * roundTrip}, slices.Repeat([]time.Duration{roundTrip}, usual)...) {
				if got := took(http.MethodGet, ""); got != want {
					t.Errorf("request %d took %v, want %v", i, got, want)
				}
			}
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				h.forget()
				if got, want := took(method, map[string]string{http.MethodPost: "grant"}[method]), 4*roundTrip+roundTrip/4; got > want+roundTrip/10 {
					t.Errorf("%s on a dead connection took %v, want %v", method, got, want)
				}
				if got := took(http.MethodGet, ""); got != roundTrip {
					t.Errorf("the next took %v", got)
				}
			}
			if n := asked.Load(); n != 1+usual+4 {
				t.Errorf("%d requests, want %d", n, 1+usual+4)
			}
			h.want(t, major)
		})
	}
}

// A check over a dead connection costs three round trips more, be they short.
func TestDeadConnectionNearby(t *testing.T) {
	for _, offers := range []string{"", "h2"} {
		synctest.Test(t, func(t *testing.T) {
			const round = 20 * time.Millisecond
			h := serve(t, offers, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(round - time.Millisecond) // before any ping is repeated
				well(w, r)
			})
			h.roundTrip = 2 * round
			for range 3 {
				for range 10 {
					_, _, _ = h.get(t.Context(), "/")
				}
				h.forget()
				start := time.Now()
				if _, _, err := h.get(t.Context(), "/"); err != nil || time.Since(start) > 4*round+round/8 {
					t.Errorf("%q: it took %v, %v", offers, time.Since(start), err)
				}
			}
		})
	}
}

// All connections of a host die at once, and so many requests find out.
func TestDeadConnections(t *testing.T) {
	for _, offers := range []string{"", "h2"} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			h := distant(t, offers, &asked)
			request := func(int) {
				if _, _, err := h.get(t.Context(), "/"); err != nil {
					t.Error(err)
				}
			}
			atOnce(maxSingle, request)
			before := h.connections()
			h.forget()
			start := time.Now()
			atOnce(maxSingle, request)
			// One tries first, in 4 and a quarter; the others look after that once a second, and
			// may make connections of their own, in 3.
			if took := time.Since(start); took > 9*roundTrip {
				t.Errorf("it took %v", took)
			}
			if n := h.connections() - before; n > maxSingle || offers == "h2" && n > 1 {
				t.Errorf("%d new connections", n)
			}
			start = time.Now()
			atOnce(maxSingle, request)
			if took := time.Since(start).Round(roundTrip / 10); took > 3*roundTrip {
				t.Errorf("then it took %v", took)
			}
		})
	}
}

// A host that answers late is not asked twice for ever, and its answers count. One that
// answers pings meanwhile is not asked twice at all.
func TestLateAnswers(t *testing.T) {
	for offers, most := range map[string]int64{"": maxLate, "h2": 0} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			late := 20 * roundTrip
			h := serve(t, offers, func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) > 1 {
					time.Sleep(late)
				}
				well(w, r)
			})
			_, _, _ = h.get(t.Context(), "/")
			const n = 20
			for range n {
				start := time.Now()
				if _, _, err := h.get(t.Context(), "/"); err != nil || time.Since(start) > late {
					t.Errorf("it took %v, %v", time.Since(start), err)
				}
			}
			if twice := asked.Load() - 1 - n; twice < min(most, 1) || twice > most {
				t.Errorf("%d requests were sent twice, want at most %d", twice, most)
			}
		})
	}
}

// A host that hangs is asked twice at most by many, and not at all where it answers pings; all
// learn that it does.
func TestHangingHost(t *testing.T) {
	for offers, twice := range map[string]int64{"": 1, "h2": 0} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			over := make(chan struct{}) // who goes away gets no answer for that
			defer close(over)
			h := serve(t, offers, func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) > 1 {
					<-over
				}
				well(w, r)
			})
			_, _, _ = h.get(t.Context(), "/")
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			atOnce(maxSingle, func(int) {
				if _, _, err := h.get(ctx, "/"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
			if n := asked.Load(); n != 1+maxSingle+twice {
				t.Errorf("%d requests, want %d more than %d", n, twice, 1+maxSingle)
			}
			synctest.Wait()
			if n := h.lane().taken(); n != 0 {
				t.Errorf("%d places are taken", n)
			}
		})
	}
}

// An HTTP/2 connection that died while nobody used it is known to be dead.
func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		h := distant(t, "h2", &asked)
		h.want(t, 2)
		h.forget()
		time.Sleep(pingAfter + pingTime + time.Second)
		start := time.Now()
		h.want(t, 2)
		if took := time.Since(start).Round(roundTrip / 10); took != 3*roundTrip {
			t.Errorf("it took %v, want %v", took, 3*roundTrip)
		}
	})
}

// A second try that turns out to be needless while its connection is being made is not sent,
// and leaves nothing behind.
func TestNeedlessConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		h := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) > 8 {
				time.Sleep(2 * roundTrip)
			}
			time.Sleep(roundTrip)
			well(w, r)
		})
		h.roundTrip = 4 * roundTrip
		for range 8 {
			h.want(t, 1)
		}
		h.want(t, 1)
		time.Sleep(h.roundTrip)
		synctest.Wait()
		if n, made, open := asked.Load(), h.connections(), h.open(); n != 9 || made != 2 || open != 1 {
			t.Errorf("%d requests over %d connections, of which %d are open; want 9, 2 and 1", n, made, open)
		}
	})
}

// A host that answers late again and again is sent one request more for ten answers.
func TestSecondTriesAreBounded(t *testing.T) {
	s := &lane{live: map[*conn]struct{}{}, base: &http.Transport{}, tls: true}
	s.current = s.generate(false)
	s.current.served.Store(true)
	used := &usage{}
	used.reused.Store(true)
	tries := func() (n int) {
		for range 2 * maxSecond {
			next, own := s.second(s.current)
			if next == nil {
				return n
			}
			if own && s.decided(s.current, next, needless, nil, unknown) != next {
				t.Error("other connections than those of a needless try are left")
			}
			n++
		}
		return n
	}
	if n := tries(); n != maxSecond {
		t.Errorf("%d tries at once, want %d", n, maxSecond)
	}
	for range 3 * answersForSecond {
		s.timed(used, time.Now())
	}
	if n := tries(); n != 3 {
		t.Errorf("%d tries after %d answers, want 3", n, 3*answersForSecond)
	}
}
