// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/health"
)

// A check waits together for the token servers of mirrors, and for a registry, that are in trouble.
func TestTokenServersInTroubleAreWaitedForTogether(t *testing.T) {
	for _, mirrors := range []int{1, 3} {
		t.Run(fmt.Sprint(mirrors), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				var names []string
				for i := range mirrors {
					names = append(names, fmt.Sprintf("mirror%d.test", i))
					n.set(names[i], func(req *http.Request) (*http.Response, error) {
						return answering(http.StatusUnauthorized, "WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://auth%d.test/token"`, i))(req)
					})
					n.set(fmt.Sprintf("auth%d.test", i), mute)
				}
				n.set(registryName, mute)
				r := newResolver(t, fakeOptions(n.roundTrip, append(names, registryName)...))
				_, _ = once(t.Context(), r, Query{Credentials: alice}, time.Minute)
				synctest.Wait()
				if troubled := r.Troubled(); len(troubled) != mirrors+1 {
					t.Fatalf("got %+v", troubled)
				}
				time.Sleep(90 * time.Second)
				q := reused
				q.Credentials = alice
				for range 3 {
					n.asked()
					began := time.Now()
					_, err := once(t.Context(), r, q, 5*time.Second)
					if waited := time.Since(began); waited > health.MaxWait {
						t.Errorf("waited %v: %v; asked %q", waited, err, n.asked())
					}
					time.Sleep(30 * time.Second)
				}
			})
		})
	}
}
