// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A storage service limits who has credentials for it. Others, who are as little known to the registry that leads there, are
// let in: that limit is none of theirs, but of those who ask by the same credentials.
func TestLimitOfAskersThatTheRegistryDoesNotTellApart(t *testing.T) {
	const storage = "storage.test"
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		open := false
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/v2/" {
				return fine(req)
			}
			return answering(http.StatusTemporaryRedirect, "Location", "http://"+storage+"/x")(req)
		})
		n.set(storage, func(req *http.Request) (*http.Response, error) {
			switch user, _, _ := req.BasicAuth(); {
			case user != "":
				return answering(http.StatusTooManyRequests, "Retry-After", "300")(req)
			case open:
				return fine(req)
			}
			return answering(http.StatusUnauthorized, "WWW-Authenticate", `Basic realm="x"`)(req)
		})
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		ask := func(asker string, credentials Credentials) error {
			_, err := once(t.Context(), r, Query{
				Known: manifestDigest, Fallback: failure.SetOf(failure.RateLimited), Asker: asker, Credentials: credentials,
			}, 2*time.Second)
			return err
		}
		alices := func(host string) (username, secret string, err error) {
			if host == storage {
				return "alice", "word of alice", nil
			}
			return "", "", nil
		}
		wantClass(t, ask("alice", alices), failure.RateLimited)
		open = true
		n.asked()
		wantClass(t, ask("alice", alices), failure.RateLimited)
		wantAsked(t, &n, "HEAD "+registryName)
		if err := ask("", nil); err != nil {
			t.Errorf("who has none is left alone for alice's limit: %v", err)
		}
	})
}
