// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Registry and token server stand behind a gateway that knows the node by a header, and answers 503 without. Both are
// well; a hint for a short verify_timeout makes the token server suspect.
func TestTokenServerBehindAGatewayThatWantsAHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			time.Sleep(10 * time.Millisecond)
			switch {
			case req.Header.Get("X-Gateway") != "node":
				return answering(http.StatusServiceUnavailable)(req)
			case req.URL.Path == "/token":
				if req.URL.Query().Get("scope") != "" && req.URL.Query().Get("scope") != "repository:team/app:pull" {
					return mute(req) // of a tenant's repository
				}
				return answer(req, http.StatusOK, nil, `{"token":"t"}`), nil
			case req.Header.Get("Authorization") == "":
				return answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://registry.test/token",service="s"`)(req)
			}
			return fine(req)
		})
		o := fakeOptions(n.roundTrip, registryName)
		o.Headers = http.Header{"X-Gateway": {"node"}}
		r := newResolver(t, o)
		tenants := reused
		tenants.Reference = registryName + "/tenant/app:v1"
		_, _ = once(t.Context(), r, tenants, time.Second)
		time.Sleep(5 * time.Second) // probes have ended
		for _, s := range r.Troubled() {
			t.Errorf("in trouble: %+v", s)
		}
		if _, err := once(t.Context(), r, reused, 5*time.Second); err != nil {
			t.Errorf("another tenant's check: %v", err)
		}
	})
}
