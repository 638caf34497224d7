// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
)

// Large layers have connections of their own beside HTTP/2, small ones do not.
func TestLayers(t *testing.T) {
	for _, test := range []struct {
		offers      string
		size        int64
		protocol    int
		connections int
	}{
		{"h2", maxShared, 2, 1},
		{"h2", maxShared + 1, 1, 2},
		{"", maxShared, 1, 1},
		{"", maxShared + 1, 1, 1},
	} {
		t.Run(fmt.Sprint(test.offers, test.size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := serve(t, test.offers, well)
				_, _, _ = h.get(t.Context(), "/")
				for range 2 {
					got, _, err := h.get(WithLayer(t.Context(), test.size), "/")
					if err != nil || got != test.protocol || h.connections() != test.connections {
						t.Errorf("got HTTP/%d over %d connections, %v", got, h.connections(), err)
					}
				}
			})
		})
	}
}

// That an answer has begun is told before any of its body comes, which is read ahead by HTTP/2.
func TestAnsweredBeforeTheBody(t *testing.T) {
	for _, offers := range []string{"h2", ""} {
		synctest.Test(t, func(t *testing.T) {
			told := make(chan int, 2)
			h := serve(t, offers, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusAccepted)
				_ = http.NewResponseController(w).Flush()
				synctest.Wait()
				if len(told) != 1 {
					t.Errorf("%q: told %d times before the body", offers, len(told))
				}
				well(w, r)
			})
			_, content, err := h.get(WithAnswered(t.Context(), func(status int) { told <- status }), "/")
			if err != nil || content != "well" || <-told != http.StatusAccepted {
				t.Errorf("%q: got %q, %v", offers, content, err)
			}
		})
	}
}

// Tenants choose where repositories redirect to: the connections to the host itself
// outlive that.
func TestLanesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, "h2", well)
		for i := range 2 * maxHosts {
			h.want(t, 2)
			h.server.URL = fmt.Sprintf("https://127.0.0.1:%d", 6000+i)
			h.want(t, 2)
			h.server.URL = "https://" + address
		}
		if n := len(h.pool.lanes.values()); n != maxHosts {
			t.Errorf("%d lanes", n)
		}
		if n := h.connections(); n != 1+2*maxHosts {
			t.Errorf("%d connections", n)
		}
	})
}

// A connection in use when its address makes place for others ends with its request.
func TestEvictedConnectionsEnd(t *testing.T) {
	for _, offers := range []string{"", "h2"} {
		synctest.Test(t, func(t *testing.T) {
			answer := make(chan struct{})
			h := serve(t, offers, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/waits" {
					<-answer
				}
				well(w, r)
			})
			var ended sync.WaitGroup
			ended.Go(func() { _, _, _ = h.get(t.Context(), "/waits") })
			synctest.Wait()
			open := h.open()
			for i := range maxHosts {
				h.server.URL = fmt.Sprintf("https://127.0.0.1:%d", 6000+i)
				h.want(t, map[string]int{"": 1, "h2": 2}[offers])
			}
			close(answer)
			ended.Wait()
			synctest.Wait()
			if n := h.open(); n != open+maxHosts-1 {
				t.Errorf("%d connections are open, want %d", n, open+maxHosts-1)
			}
		})
	}
}
