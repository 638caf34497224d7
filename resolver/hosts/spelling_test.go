// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
)

// A spelling of a registry's name counts where it has a directory of its own; all others are
// the registry's one name.
func TestSpellings(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	write(t, first, "own.test_443_", "")
	write(t, first, "Own.test", "")
	write(t, first, "both.test", "")
	write(t, first, "both.test:443", "")
	write(t, second, "far.test", "server = \"https://far.test\"\n[host.\"https://mirror.test\"]\n")
	write(t, second, "docker.io", "[host.\"https://mirror.test\"]\n")
	write(t, second, "_default", "")
	c := newCache(t, Options{Dirs: []string{first, second}})
	others := []string{"own.test:443", "Own.test", "both.test:443"} // than the one name of their registry
	for spelled, want := range map[string]string{
		"registry.test":          "registry.test at registry.test",
		"Registry.Test:443":      "registry.test at registry.test",
		"registry.test:0443":     "registry.test at registry.test",
		"registry.test:05000":    "registry.test:5000 at registry.test:5000",
		"[0:0::1]:05000":         "[::1]:5000 at [::1]:5000",
		"LOCALHOST:05000":        "localhost:5000 at localhost:5000",
		"localhost:443":          "localhost:443 at localhost:443",
		"[0::1]:443":             "[::1]:443 at [::1]:443",
		"127.0.0.9:0443":         "127.0.0.9:443 at 127.0.0.9:443",
		"registry-1.docker.io":   "docker.io at mirror.test registry-1.docker.io",
		"Index.docker.io:443":    "docker.io at mirror.test registry-1.docker.io",
		"FAR.test":               "far.test at mirror.test far.test",
		"own.test:443":           "own.test:443 at own.test:443",
		"Own.test":               "Own.test at Own.test",
		"own.test":               "own.test at own.test",
		"OWN.test:443":           "own.test at own.test",
		"both.test:443":          "both.test:443 at both.test:443",
		"both.test:0443":         "both.test at both.test",
		"registry.test.:443":     "registry.test. at registry.test.",
		"registry.hub.docker.io": "registry.hub.docker.io at registry.hub.docker.io",
	} {
		set, _ := use(t, c, spelled)
		if got := set.Name() + " at " + strings.Join(set.Addresses(), " "); got != want {
			t.Errorf("%s is %s, want %s", spelled, got, want)
		}
		if (set.Spelled() != "") != slices.Contains(others, set.Name()) {
			t.Errorf("%s is another spelling than the registry's one: %q", spelled, set.Spelled())
		}
		if one, _ := use(t, c, set.Name()); one != set {
			t.Errorf("%s and %s have hosts of their own", spelled, set.Name())
		}
	}
}

// The same with CRI's deprecated tables.
func TestSpellingsOfConfiguredNames(t *testing.T) {
	configure := func(context.Context, config.UpdateClientFunc) docker.RegistryHosts {
		return func(name string) ([]docker.RegistryHost, error) {
			return []docker.RegistryHost{{Scheme: "https", Host: name, Path: "/v2"}}, nil
		}
	}
	named := func(name string) bool { return name == "own.test:443" }
	for spelled, want := range map[string][2]string{ // with names of their own, and without
		"localhost:443": {"localhost:443", "localhost:443"}, "[0::1]:0443": {"[::1]:443", "[::1]:443"}, "127.0.0.1": {"127.0.0.1", "127.0.0.1"},
		"own.test:443": {"own.test:443", "own.test"}, "Own.test:443": {"own.test", "own.test"}, "own.test": {"own.test", "own.test"},
	} {
		for i, o := range []Options{{Configure: configure, Named: named}, {Configure: configure}} {
			if set, _ := use(t, newCache(t, o), spelled); set.Name() != want[i] || set.Hosts()[0].Host != want[i] {
				t.Errorf("%s is %s, want %s", spelled, set.Name(), want[i])
			}
		}
	}
}
