// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// The time that containerd's transport leaves a host for an answer holds for HTTP/2 as well.
func TestHeaderTimeout(t *testing.T) {
	for major, offers := range []string{1: "", 2: "h2"} {
		if major == 0 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			h := serve(t, offers, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/hangs" {
					unanswered(r)
				}
				well(w, r)
			})
			h.pool.base.ResponseHeaderTimeout = 30 * time.Second
			for range 2 {
				h.want(t, major)
				start := time.Now()
				_, _, err := h.get(WithOneTry(t.Context()), "/hangs")
				if took := time.Since(start); !fault.TimedOut(err) || took != h.pool.base.ResponseHeaderTimeout {
					t.Errorf("got %v after %v", err, took)
				}
			}
			h.want(t, major)
		})
	}
}

// Bodies that nobody reads keep nobody from the connection.
func TestUnreadBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, "h2", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				for range 16 {
					if _, err := w.Write(make([]byte, 1<<20)); err != nil {
						return
					}
				}
			}
			well(w, r)
		})
		h.want(t, 2)
		var unread []*http.Response
		for range maxSingle {
			req, err := http.NewRequestWithContext(WithLayer(t.Context(), 1), http.MethodGet, h.server.URL+"/long", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := h.pool.RoundTrip(req) //nolint:bodyclose // below
			if err != nil {
				t.Fatal(err)
			}
			unread = append(unread, resp) //nolint:bodyclose // below
		}
		synctest.Wait() // the windows of these are full
		atOnce(20, func(int) { h.want(t, 2) })
		if n := h.connections(); n != 1 {
			t.Errorf("%d connections", n)
		}
		var all sync.WaitGroup
		for _, resp := range unread {
			all.Go(func() { _ = resp.Body.Close() })
		}
		all.Wait()
		h.want(t, 2)
	})
}

// A host that takes few requests at a time on a connection gets more connections: a
// repository that hangs on one does not hold up others.
func TestFewStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		h := serve(t, "h2", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hangs" {
				<-over
			}
			well(w, r)
		})
		h.server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 2}
		h.want(t, 2)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { _, _, _ = h.get(WithOneTry(t.Context()), "/hangs") })
			synctest.Wait()
		}
		start := time.Now()
		h.want(t, 2)
		if took, n := time.Since(start), h.connections(); took != 0 || n < 2 {
			t.Errorf("it took %v, over %d connections", took, n)
		}
		close(over)
		all.Wait()
	})
}
