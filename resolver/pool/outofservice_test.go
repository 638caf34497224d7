// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// ask sends a request with some seconds of time, and reports whether it is answered well.
func (h *host) ask(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, content, err := h.get(ctx, "/")
	return err == nil && content == "well"
}

func fail503(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, "out of service")
}

// A connection to a backend that is out of service costs one request, whatever that does with it. So it does that of a large
// layer, whose connections are its own.
func TestBackendOutOfService(t *testing.T) {
	hangs := func(_ http.ResponseWriter, r *http.Request) { unanswered(r) }
	breaksOff := func(w http.ResponseWriter, r *http.Request) { // it has begun, and hangs then
		_ = http.NewResponseController(w).Flush()
		unanswered(r)
	}
	for name, tc := range map[string]struct {
		offers string
		out    http.HandlerFunc
		size   int64 // of a layer
	}{
		"503":                      {"", fail503, 0},
		"503, HTTP/2":              {"h2", fail503, 0},
		"503, layer":               {"", fail503, 1},
		"503, layer, HTTP/2":       {"h2", fail503, 1},
		"503, large layer":         {"", fail503, maxShared + 1},
		"503, large layer, HTTP/2": {"h2", fail503, maxShared + 1},
		"hangs, HTTP/2":            {"h2", hangs, 0},
		"hangs, layer, HTTP/2":     {"h2", hangs, 1},
		"hangs later, HTTP/2":      {"h2", breaksOff, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &resolvertest.Backends{Out: tc.out}
				h := serve(t, tc.offers, func(w http.ResponseWriter, r *http.Request) { b.Serve(w, r, http.HandlerFunc(well)) })
				h.roundTrip = time.Millisecond
				ctx := t.Context()
				if tc.size > 0 {
					ctx = WithLayer(ctx, tc.size)
				}
				h.want(t, map[string]int{"": 1, "h2": 2}[tc.offers])
				if !h.ask(ctx) {
					t.Fatal("a backend that is in service does not answer")
				}
				b.TakeOut()
				if h.ask(ctx) {
					t.Fatal("a backend that is out of service answers")
				}
				for range 3 {
					if !h.ask(ctx) {
						t.Error("the connection is used again")
					}
				}
				if n := b.Asked(); n != 1 {
					t.Errorf("the backend was asked %d times", n)
				}
			})
		})
	}
}

// Answers that tell of trouble, and requests that hang, of one repository cost the others few connections.
func TestConnectionsBesideARepositoryInTrouble(t *testing.T) {
	for name, trouble := range map[string]http.HandlerFunc{
		"503":   fail503,
		"hangs": func(_ http.ResponseWriter, r *http.Request) { unanswered(r) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := serve(t, "h2", func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/trouble" {
						trouble(w, r)
						return
					}
					well(w, r)
				})
				h.roundTrip = time.Millisecond
				h.want(t, 2)
				before, began := h.connections(), time.Now()
				for time.Since(began) < time.Minute {
					ctx, cancel := context.WithTimeout(t.Context(), 2*hangTime)
					_, _, _ = h.get(ctx, "/trouble")
					cancel()
					h.want(t, 2)
					time.Sleep(100 * time.Millisecond)
				}
				if n := h.connections() - before; n > int(time.Minute/forsakeTime)+1 {
					t.Errorf("%d new connections in a minute", n)
				}
				time.Sleep(time.Second)
				if n := h.open(); n > 1 {
					t.Errorf("%d connections are open", n)
				}
			})
		})
	}
}

// Pods of a repository that hangs, of which each gives up while another still waits, hold nobody up: the first connection is
// made beside those that hang on the ones that are left.
func TestOthersBesideARepositoryThatHangs(t *testing.T) {
	for _, offers := range []string{"", "h2"} {
		synctest.Test(t, func(t *testing.T) {
			h := nearby(t, offers)
			end := time.Now().Add(time.Minute)
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() {
					time.Sleep(time.Duration(i) * hangTime / 2)
					for time.Now().Before(end) {
						h.hang(t, 2*hangTime)
					}
				})
			}
			for time.Now().Before(end) {
				h.wantSoon(t, 100*time.Millisecond)
				time.Sleep(100 * time.Millisecond)
			}
			all.Wait()
			time.Sleep(time.Second)
			if n := h.lane().taken(); n != 0 {
				t.Errorf("%d places are taken", n)
			}
		})
	}
}

// A host that moves to another address is asked there in the end, however often it is asked; what is under way goes on.
func TestConnectionsAge(t *testing.T) {
	for _, offers := range []string{"", "h2"} {
		synctest.Test(t, func(t *testing.T) {
			h := serve(t, offers, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/long" {
					time.Sleep(maxAge + time.Minute)
				}
				well(w, r)
			})
			h.roundTrip = time.Millisecond
			h.want(t, map[string]int{"": 1, "h2": 2}[offers])
			long := make(chan string)
			go func() {
				_, content, err := h.get(WithLayer(t.Context(), 1), "/long")
				if err != nil {
					t.Error(err)
				}
				long <- content
			}()
			synctest.Wait()
			h.want(t, map[string]int{"": 1, "h2": 2}[offers])
			before, began := h.connections(), time.Now()
			for time.Since(began) < maxAge+30*time.Second {
				h.want(t, map[string]int{"": 1, "h2": 2}[offers])
				time.Sleep(10 * time.Second)
			}
			if n := h.connections() - before; n != 1 {
				t.Errorf("%s: %d new connections in %v", offers, n, time.Since(began))
			}
			if content := <-long; content != "well" {
				t.Errorf("%s: the request that was under way is answered %q", offers, content)
			}
			time.Sleep(time.Second)
			if n := h.open(); n != 1 {
				t.Errorf("%s: %d connections are open", offers, n)
			}
		})
	}
}

// The same where a second try is what leads there.
func TestSecondTryAtABackendOutOfService(t *testing.T) {
	for _, offers := range []string{"", "h2"} {
		synctest.Test(t, func(t *testing.T) {
			var bad atomic.Int64
			h := serve(t, offers, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(20 * time.Millisecond)
				if r.RemoteAddr == "client:2" {
					bad.Add(1)
					fail503(w, r)
					return
				}
				well(w, r)
			})
			h.roundTrip = 40 * time.Millisecond
			for range 10 {
				h.ask(t.Context())
			}
			h.forget()
			for range 4 {
				h.ask(t.Context())
			}
			if bad.Load() != 1 {
				t.Errorf("%q: it was asked %d times", offers, bad.Load())
			}
		})
	}
}
