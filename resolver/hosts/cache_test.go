// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The first directory that has the name, or _default, decides.
func TestHostDirectories(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	c := newCache(t, Options{Dirs: []string{first, filepath.Join(first, "missing"), second}})
	expect := func(name, want string) {
		t.Helper()
		set, _ := use(t, c, name)
		var list []string
		for _, h := range set.Hosts() {
			mark := ""
			if h.Origin {
				mark = "*"
			}
			list = append(list, mark+h.Scheme+"://"+h.Host+h.Path)
		}
		if got := strings.Join(list, " "); got != want {
			t.Errorf("%s: got hosts %s, want %s", name, got, want)
		}
	}
	const hub = "docker.io"
	expect(hub, "*https://registry-1.docker.io/v2")
	expect(registryName, "*https://registry.test/v2")
	expect("localhost:5000", "*https://localhost:5000/v2") // falls back to HTTP

	write(t, second, "_default", "server = \"http://default.test\"\n")
	expect(registryName, "*http://default.test/v2")
	write(t, second, registryName, "[host.\"http://mirror.test:5000\"]\n")
	expect(registryName, "http://mirror.test:5000/v2 *https://registry.test/v2")
	write(t, first, registryName, chain("https://a.test", "https://registry.test", "https://b.test"))
	expect(registryName, "https://a.test/v2 *https://registry.test/v2 https://b.test/v2")
	write(t, first, "docker.io", chain("https://registry-1.docker.io", "https://mirror.test"))
	expect(hub, "*https://registry-1.docker.io/v2 https://mirror.test/v2")
	write(t, first, "registry.test_5000_", "server = \"http://port.test\"\n")
	expect("registry.test:5000", "*http://port.test/v2")
	if err := os.RemoveAll(filepath.Join(first, registryName)); err != nil {
		t.Fatal(err)
	}
	expect(registryName, "http://mirror.test:5000/v2 *https://registry.test/v2")
	write(t, first, registryName, "ca = \"missing.pem\"\n") // without a good version
	if _, _, err := acquire(t, c, registryName); !errors.As(err, new(*FileError)) || !strings.Contains(err.Error(), "missing.pem") {
		t.Errorf("got %v", err)
	}
}

// A change on disk counts from the next Acquire on, and says what it has
// changed. A set is retired by the one that takes its place.
func TestChanges(t *testing.T) {
	root := hostsDir(t, chain("https://a.test"))
	c := newCache(t, Options{Dirs: []string{root}})
	old, change, err := c.Acquire(t.Context(), registryName)
	if err != nil || change.Reconfigured || len(change.Retired) > 0 {
		t.Fatalf("got %+v, %v", change, err)
	}
	write(t, root, registryName, chain("https://a.test")) // the same again
	if again, change := use(t, c, registryName); again != old || change.Reconfigured || len(change.Retired) > 0 {
		t.Errorf("the same text gives another set: %+v", change)
	}
	write(t, root, registryName, chain("https://b.test"))
	set, change := use(t, c, registryName)
	if set == old || !change.Reconfigured || !slices.Equal(change.Retired, []*Set{old}) {
		t.Errorf("got %+v", change)
	}
	if !old.Retired() || old.users != 1 || set.Retired() || set.users != 0 {
		t.Errorf("retired %v, %d users; %v, %d users", old.Retired(), old.users, set.Retired(), set.users)
	}
	if got := old.Addresses(); !slices.Equal(got, []string{"a.test"}) {
		t.Errorf("the old set has %v now", got)
	}
	c.Release(old)
	if old.users != 0 {
		t.Errorf("%d users", old.users)
	}

	// A file that is not right leaves the good one in force.
	for _, text := range []string{"server = 7\n", chain("https://b.test"), "ca = \"missing.pem\"\n", "[host"} {
		write(t, root, registryName, text)
		for range 2 {
			if again, change := use(t, c, registryName); again != set || change.Reconfigured || len(change.Retired) > 0 {
				t.Errorf("%q: got %+v", text, change)
			}
		}
	}
	write(t, root, registryName, chain("https://b.test"))
	if again, change := use(t, c, registryName); again != set || change.Reconfigured {
		t.Errorf("got %+v", change)
	}
}

// Callers that acquire one name at a time share its set.
func TestConcurrentAcquires(t *testing.T) {
	c := newCache(t, Options{Dirs: []string{hostsDir(t, chain("https://a.test"))}})
	var wg sync.WaitGroup
	var sets sync.Map
	start := make(chan struct{})
	for range 16 {
		wg.Go(func() {
			<-start
			for range 5 {
				set, _, err := c.Acquire(t.Context(), registryName)
				if err != nil {
					t.Error(err)
					return
				}
				sets.Store(set, true)
				c.Release(set)
			}
		})
	}
	close(start)
	wg.Wait()
	n := 0
	sets.Range(func(set, _ any) bool {
		n++
		if set.(*Set).users != 0 {
			t.Errorf("%d users are left", set.(*Set).users)
		}
		return true
	})
	if n != 1 {
		t.Errorf("%d sets, want 1", n)
	}
}

// The set that was not used for longest goes first.
func TestSetsAreBounded(t *testing.T) {
	c := newCache(t, Options{})
	first, _, err := acquire(t, c, "first.test")
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxSets {
		_, change := use(t, c, fmt.Sprintf("host-%d.test", i))
		if dropped := slices.Contains(change.Retired, first); dropped != (i == maxSets-1) || change.Reconfigured {
			t.Errorf("after %d: got %+v", i, change)
		}
	}
	if n := c.sets.Len(); n != maxSets || !first.Retired() {
		t.Errorf("%d sets are kept", n)
	}
}

// Hosts that do not come from files cannot change: they are made once.
func TestConfigureIsAskedOnce(t *testing.T) {
	asked := 0
	c := newCache(t, Options{Configure: func(_ context.Context, update config.UpdateClientFunc) docker.RegistryHosts {
		return func(string) ([]docker.RegistryHost, error) {
			asked++
			client := &http.Client{Transport: docker.DefaultHTTPTransport(nil)}
			return []docker.RegistryHost{{Client: client, Scheme: "http", Host: "a.test", Path: "/v2"}}, update(client)
		}
	}})
	for range 3 {
		use(t, c, registryName)
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// Nothing can be acquired after Close, which takes all sets out of use.
func TestCloseRetiresAll(t *testing.T) {
	c := NewCache(Options{})
	set, _ := use(t, c, registryName)
	if retired := c.Close(); !slices.Equal(retired, []*Set{set}) || !set.Retired() {
		t.Errorf("got %v", retired)
	}
	if _, _, err := acquire(t, c, registryName); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if retired := c.Close(); len(retired) > 0 {
		t.Errorf("the second Close retired %v", retired)
	}
}

// A transport that falls back from HTTPS to HTTP finds out again when that stops
// working.
func TestHTTPFallback(t *testing.T) {
	plain := resolvertest.New(t)
	set, _, err := acquire(t, newCache(t, Options{}), plain.Host())
	if err != nil {
		t.Fatal(err)
	}
	f, ok := set.Hosts()[0].Base.(*httpFallback)
	if !ok {
		t.Fatalf("got %T", set.Hosts()[0].Base)
	}
	get := func() (code int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+plain.Host()+"/v2/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := f.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if code := get(); code != http.StatusOK || f.current == nil {
		t.Errorf("got status %d", code)
	}
	plain.Status(resolvertest.All, http.StatusBadRequest)
	if code := get(); code != http.StatusBadRequest || f.current != nil {
		t.Errorf("it stays with HTTP after %d", code)
	}
}
