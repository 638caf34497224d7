// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A hint for a short verify_timeout makes a well registry's token server suspect. No step of its probe is
// silent for the second that it may be, but the two requests of the probe together take more than 3 s.
func TestFarTokenServerIsInNoTrouble(t *testing.T) {
	for name, step := range map[string]time.Duration{"near": 10 * time.Millisecond, "far": 170 * time.Millisecond, "farther": 400 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const authHost = "auth.test"
				var n fakeNet
				n.set(registryName, func(req *http.Request) (*http.Response, error) {
					challenge := answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://auth.test/token",service="s"`)
					switch {
					case isProbe(req):
						return inSteps(step, challenge)(req)
					case req.Header.Get("Authorization") == "":
						return after(step, challenge)(req)
					}
					return after(step, fine)(req)
				})
				n.set(authHost, func(req *http.Request) (*http.Response, error) {
					token := func(req *http.Request) (*http.Response, error) {
						return answer(req, http.StatusOK, http.Header{"Content-Type": {"application/json"}}, `{"token":"t"}`), nil
					}
					if req.URL.Query().Get("scope") == "" { // the probe's
						return inSteps(step, token)(req)
					}
					return after(step, token)(req) // on a connection that is there
				})
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))

				hurried := reused // by a pod of a tenant, with pullwarden.io/verify-timeout
				hurried.Reference = registryName + "/tenant/app:v1"
				_, _ = once(t.Context(), r, hurried, step+step/2) // the token is on its way when that ends
				time.Sleep(5 * time.Second)                       // the probe has ended
				for _, s := range r.Troubled() {
					t.Errorf("%s is in trouble: %+v", s.Host, s)
				}
				for range 3 {
					if _, err := once(t.Context(), r, reused, 5*time.Second); err != nil {
						t.Errorf("another tenant's check: %v", err)
					}
					time.Sleep(30 * time.Second)
				}
			})
		})
	}
}
