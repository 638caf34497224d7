// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A storage service leads back to something at the registry that is limited, or hangs: the registry itself has answered
// at once, and is asked again by the next check.
func TestLimitsOfWhatAStorageServiceLedTo(t *testing.T) {
	limited := answering(http.StatusTooManyRequests, "Retry-After", "300")
	for name, test := range map[string]struct{ there, storage scripted }{
		"limited":            {limited, answering(http.StatusTemporaryRedirect, "Location", "http://"+registryName+"/login")},
		"hangs":              {mute, answering(http.StatusTemporaryRedirect, "Location", "http://"+registryName+"/login")},
		"storage, limited":   {fine, limited},
		"storage that hangs": {fine, mute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				var well atomic.Bool
				n.set(registryName, func(req *http.Request) (*http.Response, error) {
					switch {
					case req.URL.Path == "/login":
						return test.there(req)
					case req.URL.Path == "/v2/" || well.Load():
						return fine(req)
					}
					return answering(http.StatusTemporaryRedirect, "Location", "http://storage.test/x")(req)
				})
				n.set("storage.test", test.storage)
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))
				fallback := failure.SetOf(failure.RateLimited, failure.Unreachable)
				_, _ = once(t.Context(), r, Query{Known: manifestDigest, Fallback: fallback}, 2*time.Second)
				well.Store(true)
				n.asked()
				if _, err := once(t.Context(), r, Query{Known: manifestDigest, Fallback: fallback}, 2*time.Second); err != nil {
					t.Errorf("the next check: %v; %v", err, n.asked())
				}
			})
		})
	}
}
