// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"

	"github.com/pullwarden/pullwarden/resolver/health"
)

// A tenant that names many registries, all behind the mirror of _default, has nobody ask a dead mirror again:
// to forget a registry's hosts for that is no other configuration of them.
func TestManyRegistriesEndNoTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(mirrorName, mute)
		n.set(registryName, fine)
		options := fakeOptions(n.roundTrip)
		options.Hosts = func(context.Context, Credentials, config.UpdateClientFunc) docker.RegistryHosts {
			return func(name string) (hosts []docker.RegistryHost, err error) {
				for _, h := range []string{mirrorName, name} {
					hosts = append(hosts, docker.RegistryHost{
						Client: &http.Client{Transport: roundTrip(n.roundTrip)}, Authorizer: docker.NewDockerAuthorizer(),
						Scheme: "http", Host: h, Path: "/v2", Capabilities: docker.HostCapabilityPull | docker.HostCapabilityResolve,
					})
				}
				return hosts, nil
			}
		}
		r := newResolver(t, options)
		n.set("tenant.test", fine)
		_, _ = once(t.Context(), r, Query{Reference: "tenant.test/a/b:1"}, 5*time.Second) // finds the mirror dead
		synctest.Wait()
		time.Sleep(health.ProbeTime)
		synctest.Wait()
		key := health.KeyOf("http", mirrorName)
		if !r.health.Blocked(key) {
			t.Fatal("not in trouble")
		}
		for i := range 200 {
			name := fmt.Sprintf("t%d.test", i)
			n.set(name, fine)
			_, _ = once(t.Context(), r, Query{Reference: name + "/a/b:1"}, 5*time.Second)
		}
		time.Sleep(2 * time.Second)
		for i := range 3 {
			start := time.Now()
			_, err := once(t.Context(), r, Query{}, 5*time.Second)
			synctest.Wait()
			if err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("check %d took %v", i, took)
			}
			time.Sleep(2 * time.Second)
		}
	})
}
