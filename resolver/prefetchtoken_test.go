// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// A prefetch asks for a token, and a check or a fetch of another pod, that needs the same, waits for it. The token
// server answers 503 once.
func TestTokenThatAPrefetchHasBegun(t *testing.T) {
	const tokens = "auth.test"
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		var asked atomic.Int64
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			if !strings.HasPrefix(req.Header.Get("Authorization"), "Bearer ") {
				return answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://`+tokens+`/token",service="x",scope="repository:team/app:pull"`)(req)
			}
			return fine(req)
		})
		n.set(tokens, func(req *http.Request) (*http.Response, error) {
			time.Sleep(100 * time.Millisecond)
			if asked.Add(1) == 2 {
				return answer(req, http.StatusServiceUnavailable, nil, ""), nil
			}
			return answer(req, http.StatusOK, nil, `{"token":"a-good-token","access_token":"a-good-token","expires_in":60}`), nil
		})
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		if _, err := once(t.Context(), r, Query{Credentials: alice}, plenty); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Second) // the token has expired
		ahead := openAt(t, r, Query{Credentials: alice}).(*session).hosts[0]
		var prefetch sync.WaitGroup
		prefetch.Go(func() {
			p := purpose.Purpose{Kind: purpose.Fetch, Last: true, Once: true, Health: ahead.health}
			req, _ := http.NewRequest(http.MethodGet, "http://"+registryName+"/v2/team/app/blobs/x", nil)
			_ = ahead.authorizer.Authorize(purpose.With(t.Context(), p), req)
		})
		time.Sleep(50 * time.Millisecond)
		_, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
		prefetch.Wait()
		if err != nil {
			t.Errorf("%v after %d requests for tokens", err, asked.Load())
		}
	})
}
