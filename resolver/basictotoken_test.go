// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A registry gives tokens, then takes user names and passwords for a while, as behind a gateway, and gives tokens again. That a
// token of before has expired takes nothing from who is asked for one then.
func TestRegistryThatWantsTokensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		basic := false
		var n fakeNet
		n.set("tokens.test", func(req *http.Request) (*http.Response, error) {
			return answer(req, http.StatusOK, nil, `{"access_token":"good","expires_in":300}`), nil
		})
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			time.Sleep(20 * time.Millisecond)
			_, _, shown := req.BasicAuth()
			switch {
			case basic && shown, !basic && req.Header.Get("Authorization") == "Bearer good":
				return fine(req)
			case basic:
				return answering(http.StatusUnauthorized, "WWW-Authenticate", `Basic realm="x"`)(req)
			}
			return answering(http.StatusUnauthorized, "WWW-Authenticate", challengeAt("tokens.test", req))(req)
		})
		r := newResolver(t, fakeOptions(besideProbes(n.roundTrip), registryName))
		for range 3 {
			checkOnce(t, r, Query{Credentials: alice})
			time.Sleep(10 * time.Minute)
			basic = !basic
		}
	})
}
