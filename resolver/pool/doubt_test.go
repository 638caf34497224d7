// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// Once a check has found its connection dead, no pull goes over one that was kept until then: not that of a large layer,
// and not over those to where layers are.
func TestPullAfterAFailover(t *testing.T) {
	for _, offers := range []string{"h2", ""} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			h := distant(t, offers, &asked)
			h.pool.base.TLSClientConfig.InsecureSkipVerify = true // as storage.test
			pull := func(host string, size int64) time.Duration {
				t.Helper()
				req, err := http.NewRequestWithContext(WithLayer(t.Context(), size), http.MethodGet, "https://"+host+"/layer", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(req.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				resp, err := h.pool.RoundTrip(req.WithContext(ctx))
				if err != nil {
					t.Errorf("%q: a layer of %d bytes of %s: %v", offers, size, host, err)
					return 0
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				return time.Since(began)
			}
			all := func(want time.Duration) {
				t.Helper()
				for _, host := range []string{address, "storage.test"} {
					for _, size := range []int64{1, maxShared + 1} {
						if took := pull(host, size); took > want {
							t.Errorf("%q: a layer of %d bytes of %s took %v", offers, size, host, took)
						}
					}
				}
			}
			for range 2 {
				h.want(t, map[string]int{"h2": 2, "": 1}[offers])
				all(3 * roundTrip)
			}
			all(roundTrip)
			h.forget()
			h.want(t, map[string]int{"h2": 2, "": 1}[offers])
			all(3 * roundTrip)
		})
	}
}

// Doubts cost the connections to other addresses little, however often a host seems dead that only answers late.
func TestDoubtsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, "", well)
		h.want(t, 1)
		other := h.connections()
		for i := range int(time.Minute / (100 * time.Millisecond)) {
			h.pool.doubt(nil)
			h.want(t, 1)
			if made := h.connections() - other; i < 4 && made != i+1 {
				t.Errorf("%d connections are made after %d doubts in a row", made, i+1)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if made := h.connections() - other; made < 2 || made > int(time.Minute/forsakeTime)+maxDoubts+1 {
			t.Errorf("%d connections are made in a minute", made)
		}
	})
}

// unacknowledged is a connection of which the system has found out, a while after something was sent, that it is dead.
type unacknowledged struct {
	net.Conn
	dead  *atomic.Bool
	ended chan struct{}
	end   func()
}

func (u *unacknowledged) Write(p []byte) (int, error) {
	if u.dead.Load() {
		time.AfterFunc(10*time.Second, u.end)
		return len(p), nil
	}
	return u.Conn.Write(p)
}

func (u *unacknowledged) Read(p []byte) (int, error) {
	n, err := u.Conn.Read(p)
	select {
	case <-u.ended:
		return n, fault.ErrUnacknowledged
	default:
		return n, err
	}
}

// Of several kept connections that are dead, a pull waits for one.
func TestPullOverKeptConnectionsThatAreDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		together := make(chan struct{})
		h := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
			<-together
			well(w, r)
		})
		var dead atomic.Bool
		base := h.pool.base.Clone()
		base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := h.dial(ctx, network, address)
			u := &unacknowledged{Conn: c, dead: &atomic.Bool{}, ended: make(chan struct{})}
			if !dead.Load() {
				u.dead = &dead
			}
			u.end = sync.OnceFunc(func() { close(u.ended); _ = c.Close() })
			return u, err
		}
		h.pool = New(base)
		t.Cleanup(h.pool.CloseIdleConnections)
		ctx := WithLayer(t.Context(), 1)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, _, err := h.get(ctx, "/layer"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(together)
		all.Wait()
		kept := h.connections()
		dead.Store(true)
		began := time.Now()
		if _, _, err := h.get(ctx, "/layer"); err != nil || time.Since(began) != 10*time.Second || kept != 5 {
			t.Errorf("%d connections: after %v: %v", kept, time.Since(began), err)
		}
	})
}
