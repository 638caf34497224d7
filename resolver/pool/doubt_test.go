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
