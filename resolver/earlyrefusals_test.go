// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A registry refuses a caller by HEAD, and falls silent: the GET that asks for the reason has no answer.
// Somebody's request to another repository ends meanwhile, which has the registry in trouble.
func TestRefusalBeforeTheHostIsInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			if strings.Contains(req.URL.Path, "/app/") && req.Method == http.MethodHead {
				return answer(req, http.StatusForbidden, nil, ""), nil
			}
			return mute(req)
		})
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		fallback := failure.SetOf(failure.Unreachable)
		var other sync.WaitGroup
		other.Go(func() {
			_, err := once(t.Context(), r, Query{Reference: registryName + "/team/other:v1", Fallback: fallback}, time.Second)
			t.Log("other:", err)
		})
		_, err := once(t.Context(), r, Query{Known: manifestDigest, Fallback: fallback}, 20*time.Second)
		other.Wait()
		if e := wantClass(t, err, failure.Forbidden); len(e.Refusals()) != 1 {
			t.Errorf("got %v", e)
		}
	})
}

// The same where the manifest itself is asked for, and the body of the refusal stalls.
func TestStalledRefusalBeforeTheHostIsInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			if strings.Contains(req.URL.Path, "/app/") {
				time.Sleep(500 * time.Millisecond)
				return stall(http.StatusForbidden, nil, "x")(req)
			}
			return mute(req)
		})
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		fallback := failure.SetOf(failure.Unreachable)
		var other sync.WaitGroup
		other.Go(func() {
			_, _ = once(t.Context(), r, Query{Reference: registryName + "/team/other:v1", Fallback: fallback}, time.Second)
		})
		_, err := once(t.Context(), r, Query{ReadManifest: true, Fallback: fallback}, 20*time.Second)
		other.Wait()
		if e := wantClass(t, err, failure.Forbidden); len(e.Refusals()) != 1 {
			t.Errorf("got %v", e)
		}
	})
}

// The same for a token server's refusal, whose body has not come when the registry gets into trouble.
func TestTokenRefusalBeforeTheHostIsInTrouble(t *testing.T) {
	const tokens = "auth.test"
	wants := answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://`+tokens+`/token",service="x"`)
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			if strings.Contains(req.URL.Path, "/app/") {
				time.Sleep(500 * time.Millisecond)
				return wants(req)
			}
			return mute(req)
		})
		n.set(tokens, stall(http.StatusForbidden, nil, `x`))
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		fallback := failure.SetOf(failure.Unreachable)
		var other sync.WaitGroup
		other.Go(func() {
			_, err := once(t.Context(), r, Query{Reference: registryName + "/team/other:v1", Fallback: fallback}, time.Second)
			t.Log("other:", err)
		})
		_, err := once(t.Context(), r, Query{Credentials: alice, Known: manifestDigest, Fallback: fallback}, 20*time.Second)
		other.Wait()
		if e := wantClass(t, err, failure.Unauthorized); len(e.Refusals()) != 1 {
			t.Errorf("got %v", e)
		}
	})
}

// A caller leaves while the body of a refusal stalls, by a token server or the registry, or has hardly begun.
func TestTokenRefusalOfACallerThatLeaves(t *testing.T) {
	const tokens = "auth.test"
	wants := answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://`+tokens+`/token",service="x"`)
	for name, tc := range map[string]struct {
		registry scripted
		class    failure.Class
	}{
		"token":    {wants, failure.Unauthorized},
		"registry": {stall(http.StatusForbidden, nil, "x"), failure.Forbidden},
	} {
		for _, after := range []time.Duration{100 * time.Millisecond, time.Second} {
			t.Run(name+" "+after.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var n fakeNet
					n.set(registryName, tc.registry)
					n.set(tokens, stall(http.StatusForbidden, nil, `x`))
					r := newResolver(t, fakeOptions(n.roundTrip, registryName))
					left, leave := context.WithCancel(t.Context())
					time.AfterFunc(after, leave) // its context has no deadline that is known
					_, err := once(left, r, Query{Credentials: alice, ReadManifest: true}, 20*time.Second)
					if e := wantClass(t, err, tc.class); len(e.Refusals()) != 1 {
						t.Errorf("got %v", e)
					}
				})
			})
		}
	}
}

// Two checks of one caller wait for one token: the longer one must not have the shorter one miss a
// refusal whose body stalls.
func TestRefusalWhoseBodyStallsForTwo(t *testing.T) {
	const tokens = "auth.test"
	wants := answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://`+tokens+`/token",service="x",scope="repository:team/app:pull"`)
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, wants)
		n.set(tokens, stall(http.StatusForbidden, nil, `x`))
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		fallback := failure.SetOf(failure.Unreachable)
		var long sync.WaitGroup
		long.Go(func() {
			_, err := once(t.Context(), r, Query{Credentials: alice, Fallback: fallback}, 20*time.Second)
			if e := wantClass(t, err, failure.Unauthorized); len(e.Refusals()) != 1 {
				t.Errorf("the longer one: %v", e)
			}
		})
		_, err := once(t.Context(), r, Query{Credentials: alice, Known: manifestDigest, Fallback: fallback}, time.Second)
		long.Wait()
		if e := wantClass(t, err, failure.Unauthorized); len(e.Refusals()) != 1 {
			t.Errorf("the shorter one: %v", e)
		}
	})
}
