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

// A mirror's token server is in trouble by its probes, and has tokens for callers. The registry behind the mirror says 404. Where the
// cached image does not do after that, or for what the token server has, the mirror is asked all the same; else it is not.
func TestTokenServerInTroubleAfterTheRegistrysAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		fallback failure.Set
		asked    bool
	}{
		"nothing to use":           {failure.SetOf(), true},
		"for other failures alone": {failure.SetOf(failure.Unreachable, failure.Unavailable), true},
		"for the registry's alone": {failure.SetOf(failure.NotFound), true},
		"for both":                 {failure.SetOf(failure.NotFound, failure.Unavailable), false},
	} {
		t.Run(name, func(t *testing.T) {
			addresses(t, mirrorName, func(t *testing.T, at string) {
				var n fakeNet
				h := newHome(&n, mirrorName, at)
				n.set(registryName, answering(http.StatusNotFound))
				breaks(&h.tokens, answering(http.StatusServiceUnavailable))
				r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
				query := of("team/app", "alice")
				query.Fallback = test.fallback
				_, err := once(t.Context(), r, query, 5*time.Second)
				wantClass(t, err, failure.NotFound)
				synctest.Wait()
				breaks(&h.tokens, forCallersAlone)
				time.Sleep(2 * health.Fresh)
				n.asked()
				got, err := once(t.Context(), r, query, 5*time.Second)
				if test.asked && (err != nil || got.Host != mirrorName) {
					t.Errorf("got %+v, %v; asked %q", got, err, n.asked())
				}
				if !test.asked {
					wantClass(t, err, failure.NotFound)
				}
			})
		})
	}
}

// A mirror that limits requests, and does not say for how long, is tried again unless the cached image does for that, and after the
// registry's answer, which decides.
func TestTriesOfAMirrorThatLimitsAfterTheRegistrysAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		fallback failure.Set
		want     int
	}{
		"for the limit alone":  {failure.SetOf(failure.RateLimited), 3},
		"for the answer alone": {failure.SetOf(failure.NotFound), 3},
		"for both":             {failure.SetOf(failure.RateLimited, failure.NotFound), 1},
	} {
		t.Run("the cached image does "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(registryName, answering(http.StatusNotFound))
				n.set(mirrorName, answering(http.StatusTooManyRequests))
				r := newResolver(t, fakeOptions(n.roundTrip, registryName, mirrorName))
				_, err := once(t.Context(), r, Query{Fallback: test.fallback}, 5*time.Second)
				wantClass(t, err, failure.NotFound)
				if asked := n.asked(); countOf(asked, mirrorName) != test.want {
					t.Errorf("want %d tries: %v; asked %q", test.want, err, asked)
				}
			})
		})
	}
}

// So is the registry where it is in trouble, for which the cached image does not do: once, if it does for the limit.
func TestTriesOfARegistryInTroubleThatLimits(t *testing.T) {
	for _, fallback := range []failure.Set{failure.SetOf(failure.RateLimited), failure.SetOf()} {
		synctest.Test(t, func(t *testing.T) {
			var n fakeNet
			n.set(mirrorName, answering(http.StatusNotFound))
			n.set(registryName, answering(http.StatusServiceUnavailable))
			r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
			_, _ = once(t.Context(), r, Query{}, 5*time.Second)
			synctest.Wait()
			n.set(registryName, func(req *http.Request) (*http.Response, error) {
				if isProbe(req) {
					return answering(http.StatusServiceUnavailable)(req)
				}
				return answering(http.StatusTooManyRequests)(req)
			})
			n.asked()
			_, err := once(t.Context(), r, Query{Fallback: fallback}, 5*time.Second)
			wantClass(t, err, failure.RateLimited)
			want := map[bool]int{true: 3, false: 1}[fallback.Empty()]
			if asked := n.asked(); countOf(asked, registryName) != want {
				t.Errorf("want %d tries: %v; asked %q", want, err, asked)
			}
		})
	}
}
