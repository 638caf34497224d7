// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
)

// namedOptions are fake hosts by name of registry, of which each spelling is one. A name that is
// not among them is asked by itself.
func namedOptions(rt roundTrip, named map[string][]docker.RegistryHost) Options {
	return Options{
		HostsNamed: func(name string) bool { return named[name] != nil },
		Hosts: func(context.Context, Credentials, config.UpdateClientFunc) docker.RegistryHosts {
			return func(name string) ([]docker.RegistryHost, error) {
				list := slices.Clone(named[name])
				if list == nil {
					list = []docker.RegistryHost{{Host: name}}
				}
				for i := range list {
					h := &list[i]
					h.Scheme, h.Client, h.Authorizer = "https", &http.Client{Transport: rt}, docker.NewDockerAuthorizer()
					h.Capabilities = docker.HostCapabilityPull | docker.HostCapabilityResolve
					if h.Path == "" {
						h.Path = "/v2"
					}
				}
				return list, nil
			}
		},
	}
}

// A registry is asked by its one name, however a reference spells it, and a mirror about that.
func TestRegistryIsAskedByItsOneName(t *testing.T) {
	for spelled, want := range map[string][]string{
		registryName:            {registryName + "/v2/team/app/manifests/v1?"},
		"Registry.Test:443":     {registryName + "/v2/team/app/manifests/v1?"},
		"registry.test:0443":    {registryName + "/v2/team/app/manifests/v1?"},
		"mirrored.test:443":     {mirrorName + "/v2/team/app/manifests/v1?ns=mirrored.test", "mirrored.test/v2/team/app/manifests/v1?"},
		"Own.test":              {"Own.test/v2/team/app/manifests/v1?"},
		"registry-1.docker.io":  {"docker.io/v2/team/app/manifests/v1?"},
		"registry.test:5000":    {"registry.test:5000/v2/team/app/manifests/v1?"},
		"[0::0:1]:00080":        {"[::1]:80/v2/team/app/manifests/v1?"},
		"registry.test.example": {"registry.test.example/v2/team/app/manifests/v1?"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			r := newResolver(t, namedOptions(func(req *http.Request) (*http.Response, error) {
				got = append(got, req.URL.Host+req.URL.Path+"?"+req.URL.RawQuery)
				if req.URL.Host == mirrorName {
					return answering(http.StatusNotFound)(req)
				}
				return manifestAnswer(req), nil
			}, map[string][]docker.RegistryHost{"mirrored.test": {{Host: mirrorName}, {Host: "mirrored.test"}}, "Own.test": {{Host: "Own.test"}}}))
			s := openAt(t, r, Query{Reference: spelled + "/team/app:v1"})
			found, err := s.Resolve(t.Context(), time.Second)
			if err != nil || found.Host != s.Origin() || !slices.Equal(got, want) {
				t.Errorf("%s: requests %v, want %v; %+v, %v", spelled, got, want, found, err)
			}
			src := s.Source(found.Descriptor)
			name, _, err := src.Resolve(t.Context())
			if err != nil || name != spelled+"/team/app:v1" {
				t.Errorf("the image is called %s: %v", name, err)
			}
			got = nil
			fetcher, err := src.Fetcher(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			body, err := fetcher.Fetch(t.Context(), found.Descriptor)
			if err != nil {
				t.Fatal(err)
			}
			_ = body.Close()
			for i, request := range got {
				if tag := strings.Replace(request, manifestDigest.String(), "v1", 1); i >= len(want) || tag != want[i] {
					t.Errorf("%s: the pull asks for %v", spelled, got)
				}
			}
		})
	}
}
