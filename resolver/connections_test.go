// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// secured starts a registry with TLS and tokens that has the image, and a
// Resolver that trusts it.
func secured(t testing.TB) (*resolvertest.Registry, *Resolver, string) {
	t.Helper()
	reg := resolvertest.New(t, resolvertest.WithTLS(), resolvertest.WithTokenAuth(map[string]string{username: password, "bob": "bob's"}))
	if _, err := reg.Push(t.Context(), "team/app:v1", resolvertest.Image(1, 3, 64<<10)); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	dir := filepath.Join(root, registryName)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := reg.CAFile(dir); err != nil {
		t.Fatal(err)
	}
	hosts := fmt.Sprintf("server = %q\nca = \"ca.pem\"\n", reg.URL())
	if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(hosts), 0o644); err != nil {
		t.Fatal(err)
	}
	r := newResolver(t, Options{HostDirs: []string{root}})
	reg.Forget()
	return reg, r, dir
}

func checkOnce(t testing.TB, r *Resolver, query Query) {
	t.Helper()
	if _, err := once(t.Context(), r, query, plenty); err != nil {
		t.Fatal(err)
	}
}

// A check with a warm connection and a warm token is one request, and the pull
// after a change asks nothing twice.
func TestWarmCheckIsOneRequest(t *testing.T) {
	reg, r, _ := secured(t)
	checkOnce(t, r, Query{Credentials: alice})
	if n := reg.Count(resolvertest.NoProbe); n != 3 {
		t.Errorf("the first check took %d requests, want 3", n)
	}
	known := map[string]bool{}
	reg.Used(known)
	for range 5 {
		reg.Forget()
		checkOnce(t, r, Query{Credentials: alice})
		if n, heads := reg.Count(resolvertest.NoProbe), reg.Count(resolvertest.Of(http.MethodHead, resolvertest.Manifests)); n != 1 || heads != 1 {
			t.Errorf("%d requests, want one HEAD: %+v", n, reg.Requests())
		}
		if n := reg.Used(known); n != 0 {
			t.Errorf("%d new connections", n)
		}
	}

	reg.Forget()
	p := newPuller(t, transferlocal.TransferConfig{MaxConcurrentDownloads: 1}, Options{}, Query{})
	p.session = openAt(t, r, Query{Credentials: alice})
	if _, err := p.pull(t, nil); err != nil {
		t.Fatal(err)
	}
	// HEAD; manifest, config, three layers.
	if n := reg.Count(resolvertest.NoProbe); n != 1+5 {
		t.Errorf("%d requests, want 6: %+v", n, reg.Requests())
	}
	if n := reg.Used(known); n > 2 {
		t.Errorf("%d new connections", n)
	}
	if n := reg.Count(resolvertest.Of("", resolvertest.Tokens)); n != 0 {
		t.Errorf("%d token requests", n)
	}
}

// A change on disk counts at the next Open, open sessions go on as they were,
// and what they used is closed after them.
func TestHostsChangeWhileSessionsAreOpen(t *testing.T) {
	first, firstLog := serve(t, serveManifest)
	second, secondLog := serve(t, serveManifest)
	root := hostsDir(t, chain(first.URL))
	r := newResolver(t, Options{HostDirs: []string{root}})
	old := openAt(t, r, Query{})
	write(t, root, chain(second.URL))
	checkOnce(t, r, Query{})
	if _, err := old.Resolve(t.Context(), plenty); err != nil {
		t.Error(err)
	}
	wantRequests(t, firstLog, head)
	wantRequests(t, secondLog, head)
	old.Close()
	old.Close()
	waitFor(t, func() bool { return r.hosts.Connections() == 1 }) // of the second

	// A file that is not right leaves the last good one in force.
	write(t, root, "server = 7\n")
	for range 2 {
		checkOnce(t, r, Query{})
	}
	wantRequests(t, secondLog, head, head, head)
	write(t, root, chain(second.URL))
	checkOnce(t, r, Query{})
	if n := r.hosts.Connections(); n != 1 {
		t.Errorf("%d connections, want the same 1", n)
	}
}

// The same text is the same configuration, whenever it was written.
func TestUnchangedFilesKeepConnections(t *testing.T) {
	reg, r, dir := secured(t)
	checkOnce(t, r, Query{Credentials: alice})
	known := map[string]bool{}
	reg.Used(known)
	for _, touch := range []func(path string, data []byte) error{
		func(path string, data []byte) error { return os.WriteFile(path, data, 0o644) },
		func(path string, data []byte) error {
			return errors.Join(os.WriteFile(path+".new", data, 0o644), os.Rename(path+".new", path))
		},
	} {
		for _, name := range []string{"hosts.toml", "ca.pem"} {
			path := filepath.Join(dir, name)
			data, err := os.ReadFile(path)
			if err == nil {
				err = touch(path, data)
			}
			if err != nil {
				t.Fatal(err)
			}
			reg.Forget()
			checkOnce(t, r, Query{Credentials: alice})
			if n := reg.Count(resolvertest.NoProbe); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
			if n := reg.Used(known); n != 0 {
				t.Errorf("%d new connections", n)
			}
		}
	}
}

// Certificates are rotated on disk.
func TestCertificateRotation(t *testing.T) {
	reg, r, dir := secured(t)
	other := resolvertest.New(t, resolvertest.WithTLS())
	checkOnce(t, r, Query{Credentials: alice})
	ca := filepath.Join(dir, "ca.pem")
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(ca, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(other.CAPEM())
	_, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
	wantClass(t, err, failure.Invalid)
	write(reg.CAPEM())
	checkOnce(t, r, Query{Credentials: alice})
	if err := os.Remove(ca); err != nil {
		t.Fatal(err)
	}
	checkOnce(t, r, Query{Credentials: alice}) // as it was read last
	write(reg.CAPEM())
	checkOnce(t, r, Query{Credentials: alice})
}

// Deprecated CRI mirrors cannot change: they are made once.
func TestHostsOptionIsAskedOnce(t *testing.T) {
	server, _ := serve(t, serveManifest)
	var asked atomic.Int64
	r := newResolver(t, Options{Hosts: func(_ context.Context, _ Credentials, update config.UpdateClientFunc) docker.RegistryHosts {
		return func(string) ([]docker.RegistryHost, error) {
			asked.Add(1)
			client := &http.Client{Transport: docker.DefaultHTTPTransport(nil)}
			return []docker.RegistryHost{{
				Client: client, Scheme: "http", Host: serverHost(server), Path: "/v2",
				Capabilities: docker.HostCapabilityPull | docker.HostCapabilityResolve,
			}}, update(client)
		}
	}})
	for range 3 {
		checkOnce(t, r, Query{})
	}
	if n := asked.Load(); n != 1 || r.hosts.Connections() != 1 {
		t.Errorf("asked %d times, %d connections", n, r.hosts.Connections())
	}
}

// Close ends what is idle, what is used and what is being made.
func TestClose(t *testing.T) {
	server, log := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	list, _ := registries(t, 1)
	swallowing := list[0]
	if err := swallowing.Swallow(); err != nil {
		t.Fatal(err)
	}
	r := New(Options{HostDirs: []string{hostsDir(t, chain(server.URL))}})
	done := make(chan error, 2)
	for _, ref := range []string{imageRef, swallowing.Host() + "/x:1"} {
		go func() {
			_, err := once(t.Context(), r, Query{Reference: ref}, plenty)
			done <- err
		}()
	}
	waitFor(t, func() bool { return len(log.list()) > 0 && r.hosts.Connections() > 1 })
	start := time.Now()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		wantClass(t, <-done, failure.Unreachable)
	}
	if elapsed := time.Since(start); elapsed > plenty/2 {
		t.Errorf("it took %v", elapsed)
	}
	if _, err := r.Open(t.Context(), Query{Reference: imageRef}); !errors.Is(err, hosts.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
