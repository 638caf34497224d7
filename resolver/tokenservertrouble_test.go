// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// A mirror gives a token that is a part of the URL of the registry's token server, which hangs: that gets into trouble as
// with any other token, and the next pods wait for a probe, and not for all of their time.
func TestTroubleOfATokenServerWhoseURLHasAMirrorsToken(t *testing.T) {
	for _, token := range []string{"good-token", "http://auth.test"} {
		t.Run(token, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(mirrorName, func(req *http.Request) (*http.Response, error) {
					switch {
					case req.URL.Path == "/token":
						return answer(req, http.StatusOK, nil, fmt.Sprintf(`{"token":%[1]q,"access_token":%[1]q}`, token)), nil
					case req.Header.Get("Authorization") == "":
						return wantsTokenOf(mirrorName + "/token")(req)
					}
					return answering(http.StatusNotFound)(req)
				})
				n.set(registryName, wantsTokenOf("auth.test/token"))
				n.set("auth.test", mute)
				r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
				for pod := range 3 {
					began := time.Now()
					query := Query{Reference: fmt.Sprintf("%s/team/app-%d:v1", registryName, pod), Known: manifestDigest, Fallback: failure.SetOf(failure.Unreachable)}
					_, err := once(t.Context(), r, query, 5*time.Second)
					wantClass(t, err, failure.Unreachable)
					if waited := time.Since(began); pod > 0 && waited > health.MaxWait {
						t.Errorf("pod %d has waited for %v: %v", pod, waited, err)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}
