// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// A registry that limits the node's anonymous requests of /v2/, or is down, says nothing of its token server, which hangs: pods
// still wait for it no longer than for any host in trouble. Once /v2/ names it again, and it is well, it is asked.
func TestTroubleOfATokenServerThatCannotBeProbed(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			addresses(t, registryName, func(t *testing.T, at string) {
				var n fakeNet
				h := newHome(&n, registryName, at)
				breaks(&h.tokens, mute)
				var limited atomic.Bool
				inner := n.answer[registryName]
				n.set(registryName, func(req *http.Request) (*http.Response, error) {
					if req.URL.Path == "/v2/" && limited.Load() {
						return answering(status)(req)
					}
					return inner(req)
				})
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))
				_, err := once(t.Context(), r, of("team/app", "alice"), 5*time.Second)
				wantClass(t, err, failure.Unreachable)
				time.Sleep(health.ProbeTime)
				synctest.Wait()
				limited.Store(true)
				for pod := range 3 {
					time.Sleep(2 * health.ProbeTime)
					waits(t, r, of(fmt.Sprint("team/app", pod), fmt.Sprint("user", pod)))
				}
				limited.Store(false)
				h.tokens.Store(nil)
				time.Sleep(2 * health.ProbeTime)
				checkOnce(t, r, of("team/app", "bob"))
			})
		})
	}
}

// A token server that has 5xx for probes, which ask for no scope, and tokens for others, is in trouble once a request has failed,
// until somebody gets a token who has nothing else to use.
func TestTokenServerThatHas5xxForProbes(t *testing.T) {
	addresses(t, registryName, func(t *testing.T, at string) {
		var n fakeNet
		breaks(&newHome(&n, registryName, at).tokens, func(req *http.Request) (*http.Response, error) {
			form, err := io.ReadAll(cmp.Or(req.Body, io.ReadCloser(http.NoBody)))
			if err != nil || req.Method == http.MethodGet || strings.Contains(string(form), "username=mallory") {
				return answering(http.StatusInternalServerError)(req)
			}
			return answer(req, http.StatusOK, nil, `{"access_token":"fine","expires_in":60}`), nil
		})
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		checkOnce(t, r, of("team/app", "alice"))
		_, err := once(t.Context(), r, of("team/app", "mallory"), 5*time.Second)
		wantClass(t, err, failure.Unavailable)
		for i := range 3 {
			time.Sleep(4 * time.Minute)
			_, err := once(t.Context(), r, of(fmt.Sprint("team/app", i), "bob"), 5*time.Second)
			wantClass(t, err, failure.Unavailable)
		}
		pulls := of("team/new", "bob")
		pulls.Fallback = 0
		checkOnce(t, r, pulls)
		checkOnce(t, r, of("team/other", "bob"))
	})
}
