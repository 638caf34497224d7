// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/hosts"
)

// A token server does not take connections for a second and a half. A check that has no other host to
// ask has 30 seconds to connect, also where one that has another behind it, and gives up after a
// second, has begun the request for their token.
func TestTheLastHostIsDialledLongWhoeverBeganTheToken(t *testing.T) {
	for name, joins := range map[string]bool{"alone": false, "beside one that has another host": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokens := servedBy(t, giveToken)
			if err := tokens.Swallow(); err != nil {
				t.Fatal(err)
			}
			asked := make(chan struct{}, 100)
			registry, _ := serve(t, wantsToken(tokens.URL(), asked))
			backup, _ := serve(t, serveManifest)
			hostsTOML := chain(registry.URL, backup.URL)
			r := newResolver(t, Options{HostDirs: []string{hostsDir(t, hostsTOML)}})
			began := time.Now()
			first := make(chan error, 1)
			if joins {
				go func() {
					got, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
					t.Log("first:", time.Since(began), got.Host, got.Attempts, backup.URL)
					first <- err
				}()
				<-asked
				time.Sleep(hosts.ShortDial / 4) // it asks for the token
			} else {
				first <- nil
			}
			go func() {
				time.Sleep(3 * hosts.ShortDial / 2)
				_ = tokens.Restore()
			}()
			got, err := once(t.Context(), r, Query{Credentials: alice, Allow: onlyFrom(serverHost(registry))}, plenty)
			t.Log(time.Since(began), got.Host)
			if err != nil {
				t.Error(err)
			}
			if err := <-first; err != nil {
				t.Error(err)
			}
		})
	}
}
