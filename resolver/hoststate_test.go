// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

const hostsTOML = `server = "http://origin.test"
[host."http://content.test"]
capabilities = ["pull"]
[host."http://mirror.test"]
capabilities = ["pull", "resolve"]
`

// Hosts tells of each host whether a check asks it.
func TestHosts(t *testing.T) {
	r := newResolver(t, Options{HostDirs: []string{hostsDir(t, hostsTOML)}})
	for name, tt := range map[string]struct {
		query Query
		asked []string
	}{
		"tag":     {Query{}, []string{"mirror.test", "origin.test"}},
		"origin":  {Query{Order: OriginOnly}, []string{"origin.test"}},
		"digest":  {Query{Reference: registryName + "/team/app@" + manifestDigest.String()}, []string{"content.test", "mirror.test", "origin.test"}},
		"allowed": {Query{Allow: func(host string) bool { return host == "mirror.test" }}, []string{"mirror.test"}},
		"none":    {Query{Allow: func(string) bool { return false }}, nil},
	} {
		if tt.query.Reference == "" {
			tt.query.Reference = imageRef
		}
		states, err := r.Hosts(t.Context(), tt.query, plenty)
		if err != nil || len(states) != 3 {
			t.Fatalf("%s: %v, %v", name, states, err)
		}
		var asked []string
		for i, s := range states {
			if s.Asked {
				asked = append(asked, s.Host)
			}
			want := HostState{
				Host: []string{"content.test", "mirror.test", "origin.test"}[i], Origin: i == 2, Resolve: i > 0, Pull: true,
				Allowed: tt.query.Allow == nil || tt.query.Allow(s.Host), Asked: s.Asked,
			}
			if s != want {
				t.Errorf("%s: %+v, want %+v", name, s, want)
			}
		}
		if !slices.Equal(asked, tt.asked) {
			t.Errorf("%s: asks %v, want %v", name, asked, tt.asked)
		}
	}
}

// Hosts tells of trouble for all, and of what this repository and caller met with, and
// leaves that as it is.
func TestHostsInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(mirrorName, answering(503))
		n.set(registryName, answering(429, "Retry-After", "60"))
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		known := func(query Query) string {
			t.Helper()
			states, err := r.Hosts(t.Context(), query, plenty)
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			for _, s := range states {
				text += s.Host
				if s.Trouble != nil {
					text += fmt.Sprintf(" %s %t", s.Trouble.Class, s.Trouble.Open)
				}
				text += "; "
			}
			return text
		}
		query := Query{Reference: imageRef}
		if got := known(query); got != "mirror.test; registry.test; " {
			t.Error(got)
		}
		if _, err := once(t.Context(), r, query, 4*time.Second); err == nil {
			t.Error("no error")
		}
		synctest.Wait()
		n.asked()
		for range 2 {
			if got := known(query); got != fmt.Sprintf("mirror.test %s true; registry.test %s false; ", failure.Unavailable, failure.RateLimited) {
				t.Error(got)
			}
		}
		if got := known(Query{Reference: imageRef, Credentials: alice}); got != fmt.Sprintf("mirror.test %s true; registry.test; ", failure.Unavailable) {
			t.Errorf("for another caller: %s", got)
		}
		wantAsked(t, &n)
	})
}
