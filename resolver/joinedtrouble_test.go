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

// A token server hangs. Checks that have something else to use wait for it no longer than it takes
// the first of them to find out, also where one that has nothing else waits for the same token with
// more time.
func TestTokenServerInTroubleWhoeverElseWaits(t *testing.T) {
	for name, patient := range map[string]bool{"nobody else waits": false, "one without a fallback waits": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(registryName, func(req *http.Request) (*http.Response, error) {
					if req.Header.Get("Authorization") == "" {
						return answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://auth.test/token"`)(req)
					}
					return manifestAnswer(req), nil
				})
				n.set("auth.test", mute)
				j := &joinedTokens{t: t, resolver: newResolver(t, fakeOptions(n.roundTrip, registryName))}
				if patient {
					long := j.check(t.Context(), Query{}, 2*time.Minute)
					defer func() { <-long }()
				}
				cached := Query{Fallback: failure.SetOf(failure.Unreachable)}
				for i := range 6 {
					got := <-j.check(t.Context(), cached, 5*time.Second)
					wantClass(t, got.err, failure.Unreachable)
					if i > 0 && got.took > health.MaxWait {
						t.Errorf("pod %d waited %v", i, got.took)
					}
				}
			})
		})
	}
}

// A pod's check of another repository has found out that the token server hangs: it is in trouble for
// all whom the registry sends there. Who has something else to use does not wait for it, also
// where one that has nothing else waits for the same token.
func TestTokenServerKnownToBeInTroubleWhoeverElseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			if req.Header.Get("Authorization") == "" {
				return answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://auth.test/token"`)(req)
			}
			return manifestAnswer(req), nil
		})
		n.set("auth.test", mute)
		j := &joinedTokens{t: t, resolver: newResolver(t, fakeOptions(n.roundTrip, registryName))}
		long := j.check(t.Context(), Query{}, 2*time.Minute)
		defer func() { <-long }()
		cached := Query{Fallback: failure.SetOf(failure.Unreachable)}
		elsewhere := cached
		elsewhere.Reference = registryName + "/team/other:v1"
		for i := range 2 {
			got := <-j.check(t.Context(), elsewhere, 5*time.Second)
			t.Logf("other repository: %v %v", got.took, got.err)
			if i > 0 && got.took > health.MaxWait {
				t.Errorf("the other repository waited %v", got.took)
			}
		}
		got := <-j.check(t.Context(), cached, 5*time.Second)
		wantClass(t, got.err, failure.Unreachable)
		if got.took > health.MaxWait {
			t.Errorf("waited %v: %v", got.took, got.err)
		}
	})
}
