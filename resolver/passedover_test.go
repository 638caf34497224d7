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
	"github.com/pullwarden/pullwarden/resolver/health"
)

// oldTrouble has the registry in trouble by an old verdict, silent to its probes for 600 ms, and then well.
func oldTrouble(t *testing.T, n *fakeNet, r *Resolver, requests scripted) {
	t.Helper()
	n.set(registryName, mute)
	n.set(mirrorName, answering(http.StatusNotFound))
	_, _ = once(t.Context(), r, Query{}, 5*time.Second)
	time.Sleep(2 * health.ProbeTime)
	synctest.Wait()
	if !r.health.Blocked(health.KeyOf("http", registryName)) {
		t.Fatal("no trouble")
	}
	time.Sleep(2 * time.Minute)
	n.set(registryName, wellToProbes(600*time.Millisecond, requests))
	n.asked()
}

// The registry comes first, is passed over, and says 404 once its probe is there, for which the cached image does not do. The mirror
// behind it has limited one request meanwhile. It is the last host, and the cached image is not used in the end: it is tried again.
func TestTriesOfAMirrorBehindARegistryThatWasPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		r := newResolver(t, fakeOptions(n.roundTrip, registryName, mirrorName))
		oldTrouble(t, &n, r, answering(http.StatusNotFound))
		var tries atomic.Int32
		n.set(mirrorName, func(req *http.Request) (*http.Response, error) {
			if !isProbe(req) && tries.Add(1) == 1 {
				return after(200*time.Millisecond, answering(http.StatusTooManyRequests))(req)
			}
			return manifestAnswer(req), nil
		})
		got, err := once(t.Context(), r, Query{Fallback: failure.SetOf(failure.Unreachable)}, 20*time.Second)
		if err != nil || got.Host != mirrorName {
			t.Errorf("got %+v, %v; asked %q", got, err, n.asked())
		}
	})
}

// The same of a mirror that is slow, and gets into trouble (503 for another repository and probes) meanwhile: it is left for good,
// for the sake of a cached image that does not do in the end.
func TestMirrorThatIsLeftBehindARegistryThatWasPassedOver(t *testing.T) {
	for name, says := range map[string]scripted{"the registry says 404": answering(http.StatusNotFound), "it stays in trouble": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				r := newResolver(t, fakeOptions(n.roundTrip, registryName, mirrorName))
				oldTrouble(t, &n, r, says)
				if says == nil {
					n.set(registryName, mute)
				}
				n.set(mirrorName, func(req *http.Request) (*http.Response, error) {
					if isProbe(req) || req.URL.Path == "/v2/team/other/manifests/v1" {
						return answering(http.StatusServiceUnavailable)(req)
					}
					return after(3*time.Second, func(req *http.Request) (*http.Response, error) { return manifestAnswer(req), nil })(req)
				})
				go func() {
					time.Sleep(time.Second)
					_, _ = once(t.Context(), r, Query{Reference: registryName + "/team/other:v1", Fallback: failure.SetOf(failure.Unreachable)}, 5*time.Second)
				}()
				got, err := once(t.Context(), r, Query{Fallback: failure.SetOf(failure.Unreachable)}, 20*time.Second)
				if err != nil || got.Host != mirrorName {
					t.Errorf("got %+v, %v; asked %q", got, err, n.asked())
				}
				synctest.Wait()
			})
		})
	}
}
