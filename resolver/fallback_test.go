// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// With a cached image to fall back on, nobody waits for a host in trouble; with
// nothing, it is asked all the same.
func TestFallback(t *testing.T) {
	for name, test := range map[string]struct {
		answer scripted
		class  failure.Class
		checks int // until the breaker is open
	}{
		"silent": {mute, failure.Unreachable, 1},
		"503":    {answering(503), failure.Unavailable, 1}, // which is three tries
		"429":    {answering(429, "Retry-After", "60"), failure.RateLimited, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(registryName, test.answer)
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))
				cached := Query{Fallback: failure.SetOf(test.class)}
				for range test.checks {
					_, err := once(t.Context(), r, cached, 2*time.Second)
					wantClass(t, err, test.class)
				}
				synctest.Wait()
				n.asked()

				start := time.Now()
				_, err := once(t.Context(), r, cached, 2*time.Second)
				e := wantClass(t, err, test.class)
				if time.Since(start) != 0 || len(e.Attempts) != 1 || !strings.Contains(e.Error(), "not asked") {
					t.Errorf("after %v: %v", time.Since(start), e)
				}
				wantAsked(t, &n)

				n.set(registryName, fine)
				strict := Query{Fallback: failure.SetOf(failure.NotFound)} // for another class
				for _, query := range []Query{strict, {}} {
					trouble(t, r, health.KeyOf("http", registryName), unavailable)
					if _, err := once(t.Context(), r, query, 2*time.Second); err != nil {
						t.Error(err)
					}
					wantAsked(t, &n, "HEAD "+registryName)
					r.health.Forget(health.KeyOf("http", registryName))
				}
				if _, err := once(t.Context(), r, cached, 2*time.Second); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A digest that the node has needs no size from anybody, past a host in trouble
// neither, and costs nobody's time.
func TestKnownPastAMuteMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(mirrorName, mute)
		n.set(registryName, fine)
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		query := Query{Known: manifestDigest}
		if _, err := once(t.Context(), r, query, 4*time.Second); err != nil {
			t.Error(err)
		}
		time.Sleep(health.ProbeTime)
		synctest.Wait()
		for range health.BreakAfter {
			got, err := once(t.Context(), r, query, 100*time.Millisecond)
			if err != nil || got.Host != registryName || got.Elapsed != 0 {
				t.Errorf("got %+v, %v", got, err)
			}
		}
	})
}

// A refusal of the registry counts, even if the caller leaves that moment; other
// answers are of no use then.
func TestRefusalAsTheCallerLeaves(t *testing.T) {
	for code, class := range map[int]failure.Class{403: failure.Forbidden, 404: failure.None, 500: failure.None} {
		synctest.Test(t, func(t *testing.T) {
			var n fakeNet
			ctx, leave := context.WithCancel(t.Context())
			n.set(registryName, func(req *http.Request) (*http.Response, error) {
				leave()
				return answering(code)(req)
			})
			_, err := once(ctx, newResolver(t, fakeOptions(n.roundTrip, registryName)), Query{}, time.Second)
			switch {
			case class != failure.None:
				wantClass(t, err, class)
			case !errors.Is(err, context.Canceled):
				t.Errorf("%d: %v", code, err)
			}
		})
	}
}

// The origin's class decides whether to fall back, not a mirror's.
func TestFallbackOnTheOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(mirrorName, answering(404))
		n.set(registryName, mute)
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		query := Query{Fallback: failure.SetOf(failure.Unreachable)}
		_, err := once(t.Context(), r, query, 4*time.Second)
		wantClass(t, err, failure.Unreachable)
		time.Sleep(health.ProbeTime)
		n.asked()
		_, err = once(t.Context(), r, query, 4*time.Second)
		if e := wantClass(t, err, failure.Unreachable); len(e.Attempts) != 2 || e.Attempts[0].Class != failure.NotFound {
			t.Error(e)
		}
		wantAsked(t, &n, "HEAD "+mirrorName)
		// Without, the origin is asked after all.
		_, err = once(t.Context(), r, Query{}, 4*time.Second)
		if e := wantClass(t, err, failure.Unreachable); len(e.Attempts) != 2 || strings.Contains(e.Error(), "not asked") {
			t.Error(e)
		}
		if asked := n.asked(); !slices.Equal(slices.DeleteFunc(asked, func(r string) bool { return strings.HasPrefix(r, "GET ") }), []string{"HEAD " + mirrorName, "HEAD " + registryName}) {
			t.Errorf("got requests %v", asked)
		}
	})
}
