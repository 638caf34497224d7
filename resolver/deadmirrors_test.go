// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/health"
)

// slowManifests answers probes at once, and requests for manifests after d.
func slowManifests(d time.Duration) scripted {
	return func(req *http.Request) (*http.Response, error) {
		if req.URL.Path == "/v2/" {
			return answering(200)(req)
		}
		return after(d, fine)(req)
	}
}

// A registry that is well answers within most of verify_timeout, however many mirrors before it are dead, and
// known to be so by verdicts that each check renews.
func TestDeadMirrorsLeaveTheRegistryItsTime(t *testing.T) {
	for _, dead := range []int{1, 3} {
		for name, q := range callers {
			for _, needs := range []time.Duration{1500 * time.Millisecond, 3 * time.Second} {
				t.Run(fmt.Sprintf("%d mirrors, %s, %v", dead, name, needs), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var n fakeNet
						var names []string
						for i := range dead {
							names = append(names, fmt.Sprintf("mirror%d.test", i))
							n.set(names[i], mute)
						}
						n.set(registryName, slowManifests(needs))
						r := newResolver(t, fakeOptions(n.roundTrip, append(names, registryName)...))
						for range 5 { // checks find the mirrors dead
							_, _ = once(t.Context(), r, Query{}, 20*time.Second)
							time.Sleep(10 * time.Second)
						}
						for _, name := range names {
							if !r.health.Blocked(health.KeyOf("http", name)) {
								t.Fatalf("%s is in no trouble", name)
							}
						}
						if r.health.Blocked(health.KeyOf("http", registryName)) {
							t.Fatal("the registry is in trouble")
						}
						n.asked()
						for i := range 3 {
							began := time.Now()
							got, err := once(t.Context(), r, q, 5*time.Second)
							if err != nil {
								t.Errorf("%d: %v %v after %v; asked %q", i, got.Host, err, time.Since(began), n.asked())
							}
							time.Sleep(time.Minute)
						}
					})
				})
			}
		}
	}
}
