// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"crypto/x509"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// otherWays are registries, and names by which a tenant leads to the same host in another way.
var otherWays = map[string]struct {
	named   map[string][]docker.RegistryHost
	answers func(*http.Request) bool // else it has 503
	tenant  string
}{
	"a spelling without a configuration": {nil, func(req *http.Request) bool { return req.URL.Host == registryName }, "registry.test:443"},
	"a spelling with one of its own": {
		map[string][]docker.RegistryHost{"registry.test:443": {{Host: "registry.test:443"}}},
		func(req *http.Request) bool { return req.URL.Host == registryName }, "registry.test:443",
	},
	"the host of which the registry is a path": {
		map[string][]docker.RegistryHost{registryName: {{Host: "host.test", Path: "/registry/v2"}}},
		func(req *http.Request) bool { return strings.HasPrefix(req.URL.Path, "/registry/v2/") }, "host.test",
	},
	"the host of which a mirror is a path": {
		map[string][]docker.RegistryHost{registryName: {{Host: "host.test", Path: "/mirror/v2"}, {Host: registryName}}},
		func(req *http.Request) bool {
			return req.URL.Host != "host.test" || strings.HasPrefix(req.URL.Path, "/mirror/v2/")
		}, "host.test",
	},
}

// Who names a host in another way than others do puts it into no trouble for them.
func TestTroubleIsOfOneWayToAsk(t *testing.T) {
	for name, test := range otherWays {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newResolver(t, namedOptions(func(req *http.Request) (*http.Response, error) {
					if test.answers(req) {
						return manifestAnswer(req), nil
					}
					return answering(http.StatusServiceUnavailable)(req)
				}, test.named))
				cached := Query{Fallback: failure.SetOf(failure.Unreachable, failure.Unavailable)}
				first, err := once(t.Context(), r, cached, 4*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				for range 5 {
					_, err := once(t.Context(), r, Query{Reference: test.tenant + "/team/evil:v1"}, 4*time.Second)
					if fails := test.named != nil; (err != nil) != fails {
						t.Errorf("the tenant got %v", err)
					}
					time.Sleep(2 * time.Second)
					if got, err := once(t.Context(), r, cached, 4*time.Second); err != nil || got.Host != first.Host {
						t.Errorf("got %+v, %v; in trouble are %+v", got, err, r.Troubled())
					}
				}
			})
		})
	}
}

// Nor does it end the trouble: what fails at once in another way costs others their time.
func TestTroubleEndsByItsOwnWayToAsk(t *testing.T) {
	for tenant, class := range map[string]failure.Class{registryName + ":443": failure.Invalid, registryName + ":0443": failure.Unreachable} {
		synctest.Test(t, func(t *testing.T) {
			r := newResolver(t, namedOptions(func(req *http.Request) (*http.Response, error) {
				if req.URL.Host == registryName {
					return mute(req)
				}
				return nil, x509.UnknownAuthorityError{}
			}, map[string][]docker.RegistryHost{registryName + ":443": {{Host: registryName + ":443"}}}))
			cached := Query{Fallback: failure.SetOf(failure.Unreachable)}
			for i := range 5 {
				began := time.Now()
				_, err := once(t.Context(), r, cached, 4*time.Second)
				wantClass(t, err, failure.Unreachable)
				if waited := time.Since(began); i > 0 && waited > time.Second {
					t.Errorf("check %d waited %v", i, waited)
				}
				_, err = once(t.Context(), r, Query{Reference: tenant + "/team/evil:v1"}, time.Second)
				wantClass(t, err, class)
			}
		})
	}
}

// A way to ask a host that hosts.toml does not have any more is in no trouble.
func TestChangedWayToAskLeavesNoTrouble(t *testing.T) {
	server, _ := serve(t, serveManifest)
	root := hostsDir(t, chain(server.URL+"/path/v2", server.URL))
	r := newResolver(t, Options{HostDirs: []string{root}})
	old := openAt(t, r, Query{}).(*session).hosts[0].Key()
	trouble(t, r, old, unavailable)
	write(t, root, chain(server.URL))
	openAt(t, r, Query{})
	if states := r.Troubled(); len(states) > 0 {
		t.Errorf("in trouble are %+v", states)
	}
}

// Metrics and the status of a node have one line for a host that is in trouble in several ways.
func TestHostInTroubleInSeveralWays(t *testing.T) {
	named := map[string][]docker.RegistryHost{}
	for _, name := range []string{"a", "b", "c"} {
		named[name+".test"] = []docker.RegistryHost{{Host: mirrorName, Path: "/" + name}, {Host: name + ".test"}}
	}
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(mirrorName, mute)
		for name := range named {
			n.set(name, fine)
		}
		r := newResolver(t, namedOptions(n.roundTrip, named))
		for _, name := range slices.Sorted(maps.Keys(named)) {
			for i := range 3 {
				got, err := once(t.Context(), r, Query{Reference: name + "/team/app:v1"}, 4*time.Second)
				if err != nil || (got.Elapsed > 0) != (i == 0) {
					t.Errorf("check %d of %s took %v: %v", i, name, got.Elapsed, err)
				}
			}
		}
		if states := r.Troubled(); len(states) != 1 || !states[0].Open || states[0].Host != "https://"+mirrorName {
			t.Errorf("in trouble are %+v", states)
		}
	})
}
