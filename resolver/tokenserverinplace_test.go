// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A mirror whose token server has been well again for minutes is asked in the place of a dead
// registry, in the first check.
func TestTokenServerOfAMirrorInThePlaceOfTheRegistry(t *testing.T) {
	for name, order := range map[string]Order{"as listed": ListedOrder, "the registry first": OriginThenMirrors} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(registryName, mute)
				n.set(mirrorName, func(req *http.Request) (*http.Response, error) {
					if req.Header.Get("Authorization") == "" {
						return answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://auth.test/token"`)(req)
					}
					return manifestAnswer(req), nil
				})
				n.set("auth.test", mute)
				r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
				q := reused
				q.Order, q.Credentials = order, alice
				_, _ = once(t.Context(), r, q, 5*time.Second)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if len(r.Troubled()) != 2 {
					t.Fatalf("got %+v", r.Troubled())
				}
				n.set("auth.test", func(req *http.Request) (*http.Response, error) {
					return answer(req, http.StatusOK, nil, `{"access_token":"fine","expires_in":60}`), nil
				})
				time.Sleep(2 * time.Minute)
				n.asked()
				if got, err := once(t.Context(), r, q, 5*time.Second); err != nil || got.Host != mirrorName {
					t.Errorf("got %+v, %v; asked %q", got, err, n.asked())
				}
			})
		})
	}
}
