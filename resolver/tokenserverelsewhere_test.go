// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/health"
)

// In a check, a registry whose token server is in trouble has no share of verify_timeout but the reserve.
func TestShareOfARegistryWhoseTokenServerIsInTrouble(t *testing.T) {
	addresses(t, registryName, func(t *testing.T, at string) {
		var n fakeNet
		h := newHome(&n, registryName, at)
		n.set(mirrorName, answering(http.StatusNotFound))
		breaks(&h.tokens, mute)
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		_, _ = once(t.Context(), r, of("team/other", "bob"), 5*time.Second)
		time.Sleep(2 * health.ProbeTime)
		if len(r.Troubled()) == 0 || !r.Troubled()[0].Open {
			t.Fatalf("no trouble: %+v", r.Troubled())
		}
		n.set(mirrorName, after(3*time.Second, fine))
		q := of("team/app", "alice")
		q.Known = manifestDigest
		found, err := once(t.Context(), r, q, 5*time.Second)
		if err != nil || found.Host != mirrorName {
			t.Errorf("got %s %v", found.Host, err)
		}
	})
}

// A pull leaves no mirror, which is only slow, for a registry whose token server limits the caller.
func TestSlowMirrorIsNotLeftForTokenServersThatLimit(t *testing.T) {
	const slow = 12 * time.Second
	addresses(t, registryName, func(t *testing.T, at string) {
		var n fakeNet
		h := newHome(&n, registryName, at)
		n.set(mirrorName, func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodGet && req.URL.Path != "/v2/" {
				return after(slow, fine)(req)
			}
			return fine(req)
		})
		breaks(&h.tokens, answering(http.StatusTooManyRequests, "Retry-After", "240"))
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		q := of("team/app", "alice")
		q.Order = OriginOnly
		_, _ = once(t.Context(), r, q, 5*time.Second) // is limited
		q.Order = ListedOrder
		s := openAt(t, r, q)
		found, err := s.Resolve(t.Context(), 8*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		fetchManifest(t, s, found.Descriptor)
		if took := time.Since(began); took > slow {
			t.Errorf("%v in place of %v", took, slow)
		}
	})
}
