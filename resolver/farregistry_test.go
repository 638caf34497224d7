// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"
)

// inSteps answers as a host does to which a connection is made: each of its four steps takes so long.
func inSteps(each time.Duration, then scripted) scripted {
	return func(req *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(req.Context())
		for _, done := range []func(){
			func() { trace.DNSDone(httptrace.DNSDoneInfo{}) },
			func() { trace.ConnectDone("tcp", "", nil) },
			func() { trace.TLSHandshakeDone(tls.ConnectionState{}, nil) },
		} {
			time.Sleep(each)
			done()
		}
		return after(each, then)(req)
	}
}

// A repository that hangs is left alone after its time-out, however far away its registry is, which is well
// and was in no trouble.
func TestHangingRepositoryOfAFarRegistry(t *testing.T) {
	for name, step := range map[string]time.Duration{"near": 10 * time.Millisecond, "far": 170 * time.Millisecond, "farther": 400 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(registryName, func(req *http.Request) (*http.Response, error) {
					if isProbe(req) {
						return inSteps(step, answering(http.StatusOK))(req)
					}
					return mute(req)
				})
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))
				if _, err := once(t.Context(), r, reused, 5*time.Second); err == nil {
					t.Fatal("no error")
				}
				time.Sleep(4 * step) // its probe ends
				began := time.Now()
				if _, err := once(t.Context(), r, reused, 5*time.Second); err == nil || time.Since(began) > 0 {
					t.Errorf("the next check waited %v: %v", time.Since(began), err)
				}
			})
		})
	}
}
