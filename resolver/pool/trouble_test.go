// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// HTTP/2 that fails makes no error, and is not tried again for a while.
func TestFallBack(t *testing.T) {
	long := strings.Repeat("x", maxBuffered)
	for name, fails := range map[string]http.HandlerFunc{
		"stream reset": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"broken off": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "we")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"header too large": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Long", long+long)
			well(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var failing atomic.Bool
				h := serve(t, "h2", func(w http.ResponseWriter, r *http.Request) {
					if r.ProtoMajor == 2 && failing.Load() {
						fails(w, r)
						return
					}
					well(w, r)
				})
				h.pool.base.MaxResponseHeaderBytes = maxBuffered
				h.want(t, 2)
				failing.Store(true)
				h.want(t, 1)
				failing.Store(false)
				h.want(t, 1)
				time.Sleep(distrustTime*3/4 - time.Second)
				h.want(t, 1)
				time.Sleep(distrustTime/2 + 2*time.Second)
				h.want(t, 2)
			})
		})
	}
}

// An answer that is too long to be kept ends as it would with HTTP/1.1.
func TestBrokenOffLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, "h2", func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 {
				well(w, r)
				return
			}
			_, _ = io.WriteString(w, strings.Repeat("x", 2*maxBuffered))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		ctx := WithLayer(t.Context(), 1)
		if _, _, err := h.get(ctx, "/"); err != io.ErrUnexpectedEOF { //nolint:errorlint // docker's fetcher compares it
			t.Errorf("got %v", err)
		}
		if got, content, err := h.get(ctx, "/"); err != nil || got != 1 || content != "well" {
			t.Errorf("got HTTP/%d, %q, %v", got, content, err)
		}
	})
}

// A host that says goodbye is asked over another connection.
func TestGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, "h2", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close") // GOAWAY
			well(w, r)
		})
		for range 3 {
			atOnce(20, func(int) { h.want(t, 2) })
		}
		if n := h.connections(); n < 3 {
			t.Errorf("%d connections", n)
		}
	})
}

// A host that restarts is still one that speaks HTTP/2.
func TestConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ending atomic.Bool
		var h *host
		h = serve(t, "h2", func(w http.ResponseWriter, r *http.Request) {
			if ending.CompareAndSwap(true, false) {
				go h.server.CloseClientConnections()
				<-r.Context().Done()
				return
			}
			well(w, r)
		})
		h.want(t, 2)
		ending.Store(true)
		h.want(t, 2)
		if ending.Load() || h.connections() < 2 {
			t.Errorf("the connection has not ended; %d connections", h.connections())
		}
	})
}

// A host that ends handshakes which offer HTTP/2 is asked without that offer.
func TestRefusedOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, "", well)
		h.set(func(h *host) { h.refuses = true })
		h.want(t, 1)
		h.want(t, 1)
		if n := h.connections(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	})
}

// A certificate that is not trusted is no fault of HTTP/2's.
func TestUntrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, "h2", well)
		h.pool.base.TLSClientConfig.RootCAs = nil
		if _, _, err := h.get(t.Context(), "/"); err == nil {
			t.Error("it is trusted")
		}
		if n := h.connections(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

// A host may learn HTTP/2, and forget it.
func TestHostChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, "", well)
		for i, offers := range []string{"", "h2", "", "h2"} {
			h.set(func(h *host) { h.offers = offers })
			h.server.CloseClientConnections()
			synctest.Wait()
			atOnce(20, func(int) { h.want(t, 1+i%2) })
		}
	})
}

// A request for a token has a body, which is sent again.
func TestBodySentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, "h2", func(w http.ResponseWriter, r *http.Request) {
			data, _ := io.ReadAll(r.Body)
			if r.ProtoMajor == 2 {
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write(data)
		})
		if _, content, err := h.send(t.Context(), http.MethodPost, "/token", "grant"); err != nil || content != "grant" {
			t.Errorf("got %q, %v", content, err)
		}
	})
}
