// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"crypto/tls"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	h2 "golang.org/x/net/http2"
)

// sayGoodbye ends an HTTP/2 connection before any request is on it.
func sayGoodbye(_ *http.Server, c *tls.Conn, _ http.Handler) {
	var read sync.WaitGroup
	read.Go(func() { _, _ = io.Copy(io.Discard, c) })
	f := h2.NewFramer(c, c)
	if f.WriteSettings() != nil || f.WriteGoAway(0, h2.ErrCodeNo, nil) != nil {
		_ = c.Close()
	}
	read.Wait()
	_ = c.Close()
}

// A host that says goodbye on every HTTP/2 connection is not sent connections without end, and
// is asked by HTTP/1.1.
func TestGoodbyeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, "h2", well)
		synctest.Wait() // the server listens
		h.server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){h2.NextProtoTLS: sayGoodbye}
		h.pool.base.IdleConnTimeout = time.Minute
		for range 3 {
			h.want(t, 1)
		}
		if n := h.connections(); n > maxTries*maxConnections {
			t.Errorf("%d connections", n)
		}
		time.Sleep(2 * time.Minute)
		if n := h.open(); n != 0 {
			t.Errorf("%d connections are still open", n)
		}
	})
}

// A host that says goodbye on an HTTP/2 connection, as some do after so many requests, answers those that are under way: they are
// not asked twice, however long that takes.
func TestGoodbyeWhileRequestsAreUnderWay(t *testing.T) {
	for _, requests := range []int64{2, 50} {
		synctest.Test(t, func(t *testing.T) {
			var slow atomic.Int64
			h := serve(t, "h2", func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					if slow.Add(1) == requests {
						w.Header().Set("Connection", "close") // net/http has a goodbye for it
					} else {
						time.Sleep(3 * time.Second)
					}
				}
				time.Sleep(20 * time.Millisecond)
				well(w, r)
			})
			h.roundTrip = 40 * time.Millisecond
			for range 10 {
				h.want(t, 2)
			}
			atOnce(int(requests), func(int) {
				if _, _, err := h.get(t.Context(), "/slow"); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(4 * time.Second)
			if n := slow.Load(); n != requests {
				t.Errorf("it was asked %d times, want %d", n, requests)
			}
			h.want(t, 2)
		})
	}
}
