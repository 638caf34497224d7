// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

func refusing(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// A registry hangs, or has asked to be left alone. One pod has nothing else to use, and is refused the
// connection: those after it still do not ask.
func TestRefusedConnectionIsNoAnswer(t *testing.T) {
	limits := func(req *http.Request) (*http.Response, error) {
		return besideProbes(roundTrip(answering(http.StatusTooManyRequests, "Retry-After", "300")))(req)
	}
	for name, before := range map[string]scripted{"it hangs": mute, "it limits requests": limits} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(registryName, before)
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))
				_, _ = once(t.Context(), r, reused, 3*time.Second)
				synctest.Wait()
				n.set(registryName, refusing)
				_, err := once(t.Context(), r, Query{}, 5*time.Second)
				wantClass(t, err, failure.Unreachable)
				n.set(registryName, before)
				n.asked()
				if _, err := once(t.Context(), r, reused, 5*time.Second); err == nil || len(n.asked()) > 0 {
					t.Errorf("it is asked: %v", err)
				}
			})
		})
	}
}
