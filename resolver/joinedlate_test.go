// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A check that has no other host to ask has begun the request for a token, and has long for the connection and for TLS. One
// that has another host waits for neither longer than it would alone, but for an answer on a connection that is there.
func TestTheNextHostIsAskedSoonWhoeverBeganTheToken(t *testing.T) {
	for name, tc := range map[string]struct {
		tokens  func(t *testing.T) string
		answers bool          // the host itself, and not the next one
		within  time.Duration // of that
	}{
		"no connection": {func(t *testing.T) string {
			r := resolvertest.New(t)
			if err := r.Swallow(); err != nil {
				t.Fatal(err)
			}
			return r.URL()
		}, false, 2 * hosts.ShortDial},
		"long for TLS": {func(t *testing.T) string {
			return serveLate(t, 3*longHandshake, giveToken).URL
		}, false, longHandshake + hosts.ShortDial},
		"a late answer": {func(t *testing.T) string {
			return serveLate(t, 0, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(longHandshake)
				giveToken(w, r)
			}).URL
		}, true, plenty},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 100)
			// hosts.toml applies to the token server that a host names, too.
			registry := serveLate(t, 0, wantsToken(tc.tokens(t), asked))
			backup, _ := serve(t, serveManifest)
			r := newResolver(t, Options{HostDirs: []string{hostsDir(t, unverified(registry.URL, backup.URL))}})
			first := make(chan error, 1)
			go func() {
				_, err := once(t.Context(), r, Query{Credentials: alice, Allow: onlyFrom(serverHost(registry))}, 3*longHandshake+hosts.ShortDial)
				first <- err
			}()
			<-asked
			time.Sleep(hosts.ShortDial / 4) // it asks for the token
			began := time.Now()
			got, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
			took := time.Since(began)
			if answers := got.Host == serverHost(registry); err != nil || answers != tc.answers || took > tc.within {
				t.Errorf("%s answered after %v: %v, %+v", got.Host, took, err, got.Attempts)
			}
			if err := <-first; (err == nil) != (name != "no connection") {
				t.Errorf("the check that has no other host: %v", err)
			}
		})
	}
}
