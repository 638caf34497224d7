// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A registry redirects layers to hosts of ever other names, some of which do not answer. Their connections end with the
// requests, also where others have taken their places meanwhile.
func TestConnectionsOfRetiredHostsEnd(t *testing.T) {
	for _, offers := range []string{"", "h2"} {
		synctest.Test(t, func(t *testing.T) {
			h := serve(t, offers, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.Host, "hangs") {
					unanswered(r)
				}
				well(w, r)
			})
			h.pool.base.TLSClientConfig.InsecureSkipVerify = true
			ctx, cancel := context.WithCancel(t.Context())
			ask := func(name string) {
				req, err := http.NewRequestWithContext(WithLayer(ctx, 1000), http.MethodGet, "https://"+name+".test/", nil)
				if err != nil {
					t.Error(err)
					return
				}
				if resp, err := h.pool.RoundTrip(req); err == nil {
					_ = resp.Body.Close()
				} else if ctx.Err() == nil {
					t.Error(err)
				}
			}
			var all sync.WaitGroup
			for i := range 16 {
				all.Go(func() { ask(fmt.Sprint("hangs", i)) })
			}
			synctest.Wait()
			for i := range maxHosts {
				ask(fmt.Sprint("host", i))
			}
			cancel()
			all.Wait()
			time.Sleep(time.Second)
			if n := h.open(); n > maxHosts {
				t.Errorf("%d connections to %d hosts", n, maxHosts)
			}
		})
	}
}

// So do those that are made for a second try, and take the place of dead ones, where the host loses its place meanwhile.
func TestConnectionOfASecondTryToARetiredHostEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := nearby(t, "h2")
		h.forget()
		lane, made := h.lane(), h.connections()
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			h.wantSoon(t, time.Second)
		}()
		for h.connections() == made {
			time.Sleep(time.Millisecond)
		}
		lane.retire()
		<-answered
		time.Sleep(time.Second)
		if n := h.open(); n > 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}
