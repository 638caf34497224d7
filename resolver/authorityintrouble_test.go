// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// A firewalled registry (refuses connections), and a proxy cache with authority in its place, that refuses the image by now (403). Its token
// server has 503 for probes alone. on.unavailable = "Fail", on.unreachable = "UseCached": its word is heard, as long as 5xx is nothing
// after which the cached image is used.
func TestAuthorityWhoseTokenServerHas5xxForProbes(t *testing.T) {
	for name, order := range map[string]Order{"OriginThenMirrors": OriginThenMirrors, "as listed": ListedOrder} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				h := newHome(&n, mirrorName, "auth.test")
				n.set(registryName, refuse)
				breaks(&h.tokens, answering(http.StatusServiceUnavailable))
				r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
				query := of("team/app", "alice")
				query.Fallback, query.Order = failure.SetOf(failure.Unreachable), order
				query.Authority = func(host string) bool { return host == mirrorName }
				_, _ = once(t.Context(), r, query, 5*time.Second)
				synctest.Wait()
				if troubled := r.Troubled(); len(troubled) != 1 {
					t.Fatalf("got %+v", troubled)
				}
				breaks(&h.tokens, forCallersAlone)
				well := n.answer[mirrorName]
				n.set(mirrorName, func(req *http.Request) (*http.Response, error) {
					if req.Header.Get("Authorization") != "" && !isProbe(req) {
						return answering(http.StatusForbidden)(req)
					}
					return well(req)
				})
				time.Sleep(2 * health.Fresh)
				n.asked()
				_, err := once(t.Context(), r, query, 5*time.Second)
				wantClass(t, err, failure.Forbidden)
			})
		})
	}
}
