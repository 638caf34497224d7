// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// stalling is a connection over which nothing comes for a while.
type stalling struct {
	net.Conn
	stalls *atomic.Bool
}

func (s *stalling) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	for s.stalls.Load() {
		time.Sleep(10 * time.Millisecond)
	}
	return n, err
}

// A second try that is called off, since the first one is answered after all, says nothing of HTTP/2: nobody has given up.
func TestSecondTryIsCalledOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow, stalls, none atomic.Bool
		h := serve(t, "h2", func(w http.ResponseWriter, r *http.Request) {
			switch {
			case !slow.Load():
				time.Sleep(20 * time.Millisecond)
			case r.RemoteAddr == "client:1":
				time.Sleep(3 * time.Second)
			default:
				time.Sleep(10 * time.Second)
			}
			well(w, r)
		})
		h.roundTrip = 40 * time.Millisecond
		base := h.pool.base.Clone()
		base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := h.dial(ctx, network, address)
			if h.connections() == 1 {
				return &stalling{c, &stalls}, err
			}
			return &stalling{c, &none}, err
		}
		h.pool = New(base)
		t.Cleanup(h.pool.CloseIdleConnections)
		for range 10 {
			h.want(t, 2)
		}
		slow.Store(true)
		stalls.Store(true)
		time.AfterFunc(500*time.Millisecond, func() { stalls.Store(false) })
		if _, _, err := h.get(t.Context(), "/"); err != nil || h.connections() != 2 {
			t.Errorf("%v, %d connections", err, h.connections())
		}
		slow.Store(false)
		time.Sleep(time.Second)
		h.want(t, 2)
		time.Sleep(10 * time.Second) // what was called off ends
		h.want(t, 2)
	})
}
