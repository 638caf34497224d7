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

// The first pod gets the answer of a registry that is well again and whose probe takes 400 ms, as a far one's
// does by a new connection, however many mirrors are in trouble as well.
func TestFirstPodBesideHostsInTrouble(t *testing.T) {
	for name, order := range map[string]Order{"listed": ListedOrder, "registry first": OriginThenMirrors} {
		for mirrors := range 4 {
			t.Run(fmt.Sprintf("%s, %d mirrors", name, mirrors), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var n fakeNet
					names := []string{registryName}
					for i := range mirrors {
						names = append(names, fmt.Sprintf("mirror%d.test", i))
					}
					for _, name := range names {
						n.set(name, mute)
					}
					r := newResolver(t, fakeOptions(n.roundTrip, names...))
					_, _ = once(t.Context(), r, Query{}, 30*time.Second)
					time.Sleep(health.ProbeTime)
					synctest.Wait()
					for _, name := range names {
						if !r.health.Blocked(health.KeyOf("http", name)) {
							t.Fatalf("%s is in no trouble", name)
						}
					}
					time.Sleep(2 * time.Minute)
					n.set(registryName, func(req *http.Request) (*http.Response, error) {
						if req.URL.Path == "/v2/" {
							return after(400*time.Millisecond, answering(200))(req)
						}
						return near(req)
					})
					n.asked()
					q := reused
					q.Order = order
					began := time.Now()
					got, err := once(t.Context(), r, q, 5*time.Second)
					if err != nil || got.Host != registryName {
						t.Errorf("after %v: %v; asked %q; the registry is in trouble: %v", time.Since(began), err, n.asked(), r.health.Blocked(health.KeyOf("http", registryName)))
					}
				})
			})
		}
	}
}
