// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
)

// A host that is configured as docs/harbor.md says: by override_path, https://harbor.test/v2/hub. Only /v2/ is the root of
// an API, so that /v2/hub/ is not found, and names no token server (as in Harbor). Its token server hangs: one pod pays, not each.
func TestTokenServerOfAProjectThatHangs(t *testing.T) {
	for _, path := range []string{"/v2", "/v2/hub"} {
		for _, at := range []string{"auth.test", mirrorName} {
			for _, hosts := range []int{1, 2} {
				t.Run(fmt.Sprint(strings.ReplaceAll(path, "/", "_"), " ", at, " hosts=", hosts), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						rt := roundTrip(func(req *http.Request) (*http.Response, error) {
							switch {
							case req.URL.Host == registryName:
								return manifestAnswer(req), nil
							case req.URL.Path == "/token":
								return mute(req)
							case req.URL.Path == "/v2/" || strings.Contains(req.URL.Path, "/manifests/"):
								return answering(http.StatusUnauthorized, "WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="harbor"`, at))(req)
							}
							return answering(http.StatusNotFound)(req)
						})
						r := newResolver(t, Options{Hosts: func(context.Context, Credentials, config.UpdateClientFunc) docker.RegistryHosts {
							return func(string) ([]docker.RegistryHost, error) {
								host := func(name, path string) docker.RegistryHost {
									return docker.RegistryHost{
										Client: &http.Client{Transport: rt}, Authorizer: docker.NewDockerAuthorizer(), Scheme: "http", Host: name, Path: path,
										Capabilities: docker.HostCapabilityPull | docker.HostCapabilityResolve,
									}
								}
								return []docker.RegistryHost{host(mirrorName, path), host(registryName, "/v2")}[:hosts], nil
							}
						}})
						_, _ = once(t.Context(), r, of("team/app", "alice"), 5*time.Second)
						if hosts == 1 { // with a cached image
							for i := range 4 {
								time.Sleep(2 * time.Second)
								waits(t, r, of(fmt.Sprint("team/app", i), fmt.Sprint("user", i)))
							}
							return
						}
						for i := range 4 {
							time.Sleep(2 * time.Second)
							waits(t, r, Query{Reference: fmt.Sprintf("%s/team/app%d:v1", registryName, i), Absent: true})
						}
					})
				})
			}
		}
	}
}
