// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

func TestHeadersAndMirrorQuery(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]http.Header{}
	var g *guarded
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery] = r.Header.Clone()
		mu.Unlock()
		g.serve(w, r)
	})
	g = &guarded{server: server}
	dir := hostsDir(t, fmt.Sprintf("[host.%q]\n[host.%q.header]\nx-host = [\"a\", \"b\"]\n", server.URL, server.URL))
	s := open(t, Options{HostDirs: []string{dir}, Headers: http.Header{"X-All": {"c"}}}, Query{Credentials: alice})
	if _, err := s.Resolve(t.Context(), plenty); err != nil {
		t.Fatal(err)
	}
	if want := []string{head + "?ns=" + registryName, post + "?account=none"}; !slices.Equal(slices.Sorted(maps.Keys(seen)), want) {
		t.Errorf("got requests %v, want %v", slices.Sorted(maps.Keys(seen)), want)
	}
	for request, header := range seen {
		host := header["X-Host"]
		if host == nil {
			host = header["x-host"] //nolint:staticcheck // as hosts.toml spells it
		}
		if !slices.Equal(header["X-All"], []string{"c"}) || !slices.Equal(host, []string{"a", "b"}) || !strings.HasPrefix(header.Get("User-Agent"), "containerd/") {
			t.Errorf("%s: got header %v", request, header)
		}
	}
}

func TestObserve(t *testing.T) {
	g := newGuarded(t)
	origin, _ := serve(t, hangUp)
	var mu sync.Mutex
	var got []string
	observe := func(o Observation) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%s %s %d", o.Method, o.Host, o.Code))
		if o.Elapsed <= 0 || o.Elapsed > plenty {
			t.Errorf("got %+v", o)
		}
	}
	g.tokens = answerStatus(http.StatusForbidden)
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(g.server.URL, origin.URL))}, Observe: observe}, Query{Credentials: alice})
	_, err := s.Resolve(t.Context(), plenty)
	wantClass(t, err, failure.Unreachable)
	mirror, last := serverHost(g.server), serverHost(origin)
	want := []string{"HEAD " + mirror + " 401", "POST " + mirror + " 403", "HEAD " + last + " 0", "HEAD " + last + " 0", "HEAD " + last + " 0"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Deprecated CRI mirrors come as hosts.
func TestHostsOption(t *testing.T) {
	server, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, secret, _ := r.BasicAuth(); secret != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		serveManifest(w, r)
	})
	hosts := func(_ context.Context, creds Credentials, update config.UpdateClientFunc) docker.RegistryHosts {
		return func(name string) ([]docker.RegistryHost, error) {
			if name != registryName {
				return nil, fmt.Errorf("asked for %s", name)
			}
			client := &http.Client{Transport: docker.DefaultHTTPTransport(nil)}
			if err := update(client); err != nil {
				return nil, err
			}
			return []docker.RegistryHost{{
				Client: client, Authorizer: docker.NewDockerAuthorizer(docker.WithAuthCreds(creds)),
				Scheme: "http", Host: serverHost(server), Path: "/v2",
				Capabilities: docker.HostCapabilityPull | docker.HostCapabilityResolve,
			}}, nil
		}
	}
	s := open(t, Options{HostDirs: []string{"/nowhere"}, Hosts: hosts}, Query{Credentials: alice})
	if _, err := s.Resolve(t.Context(), plenty); err != nil {
		t.Error(err)
	}
	wantRequests(t, log, head, head)

	if _, err := newResolver(t, Options{Hosts: hosts}).Open(t.Context(), Query{Reference: "other.test/x:1"}); err == nil {
		t.Error("an error of Hosts is lost")
	}
	none := func(context.Context, Credentials, config.UpdateClientFunc) docker.RegistryHosts {
		return func(string) ([]docker.RegistryHost, error) { return nil, nil }
	}
	s = open(t, Options{Hosts: none}, Query{})
	_, err := s.Resolve(t.Context(), plenty)
	if e := wantClass(t, err, failure.Invalid); !strings.Contains(e.Error(), "there is no host to ask") {
		t.Error(e)
	}
}

func TestDecidingClass(t *testing.T) {
	mirror := Attempt{Class: failure.NotFound}
	origin := Attempt{Class: failure.Forbidden, Origin: true}
	again := Attempt{Class: failure.Unavailable, Origin: true}
	for _, test := range []struct {
		attempts []Attempt
		want     failure.Class
	}{
		{nil, failure.Invalid},
		{[]Attempt{mirror}, failure.NotFound},
		{[]Attempt{mirror, origin}, failure.Forbidden},
		{[]Attempt{origin, mirror}, failure.Forbidden},
		{[]Attempt{origin, again, mirror}, failure.Forbidden}, // by one path, the registry has answered
		{[]Attempt{again, origin, mirror}, failure.Forbidden},
	} {
		if got := newError(imageRef, test.attempts).Class; got != test.want {
			t.Errorf("%v: got %s, want %s", test.attempts, got, test.want)
		}
	}
}
