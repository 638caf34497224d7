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

// hangingTokens makes a resolver for a registry whose token server never answers. Watch sees what is
// sent to both.
func hangingTokens(t *testing.T, watch func(roundTrip) roundTrip) *joinedTokens {
	var n fakeNet
	n.set(registryName, func(req *http.Request) (*http.Response, error) {
		if req.Header.Get("Authorization") == "" {
			return answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://auth.test/token"`)(req)
		}
		return manifestAnswer(req), nil
	})
	n.set("auth.test", mute)
	return &joinedTokens{t: t, resolver: newResolver(t, fakeOptions(watch(n.roundTrip), registryName))}
}

// probed has probes find what requests find.
func probed(rt roundTrip) roundTrip { return rt }

// cached is a check that has something else to use.
var cached = Query{Fallback: failure.SetOf(failure.Unreachable)}

// beginPatient begins a check that has nothing else to use, and the request for the token. It is
// over at the end of the test.
func (j *joinedTokens) beginPatient() (wait func()) {
	long := j.check(j.t.Context(), Query{}, 2*time.Minute)
	return func() { <-long }
}

// A token server hangs. Checks that have something else to use wait for it no longer than it takes
// the first of them to find out, also where one that has nothing else waits for the same token with
// more time.
func TestTokenServerInTroubleWhoeverElseWaits(t *testing.T) {
	for name, patient := range map[string]bool{"nobody else waits": false, "one without a fallback waits": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := hangingTokens(t, probed)
				if patient {
					defer j.beginPatient()()
				}
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

// A check of another repository has found out that the token server hangs: it is in trouble for
// all whom the registry sends there. Who has something else to use does not wait for it, also
// where one that has nothing else waits for the same token.
func TestTokenServerKnownToBeInTroubleWhoeverElseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := hangingTokens(t, probed)
		defer j.beginPatient()()
		elsewhere := cached
		elsewhere.Reference = registryName + "/team/other:v1"
		<-j.check(t.Context(), elsewhere, 5*time.Second)
		got := <-j.check(t.Context(), cached, 5*time.Second)
		wantClass(t, got.err, failure.Unreachable)
		if got.took > health.MaxWait {
			t.Errorf("waited %v: %v", got.took, got.err)
		}
	})
}

// A token server hangs for one repository alone. The time-out of a check that has joined the request
// of another counts by its own time: it keeps no check from waiting that has more.
func TestTimeoutOfWhoJoinedCountsByItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := hangingTokens(t, besideProbes)
		defer j.beginPatient()()
		time.Sleep(10 * time.Second) // which are none of those who join
		for _, step := range []struct {
			timeout time.Duration
			seconds int // that it waits
		}{{time.Second, 1}, {time.Second, 0}, {3 * time.Second, 3}, {3 * time.Second, 0}, {5 * time.Second, 5}} {
			j.want(j.check(t.Context(), cached, step.timeout), failure.Unreachable, step.seconds)
		}
	})
}
