// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/pkg/reference"
	"github.com/opencontainers/go-digest"
)

// The origin is the host that is the registry of the name, however it is spelled.
func TestOrigin(t *testing.T) {
	mirrors := []docker.RegistryHost{{Host: "mirror.test"}, {Host: "registry.test:443"}, {Host: "registry-1.docker.io"}, {Host: "last.test"}}
	for name, want := range map[string]int{
		"registry.test": 1, "Registry.test": 1, "registry.test:443": 1, "registry.test:5000": 3,
		"docker.io": 2, "index.docker.io": 2, "other.test": 3,
	} {
		is := originOf(name, mirrors)
		for i := range mirrors {
			if is(i) != (i == want) {
				t.Errorf("%s: host %d is the origin: %v", name, i, is(i))
			}
		}
	}
}

// A mirror at the address of the registry is noted with its path. All paths of a host that is called
// as the name says are the registry.
func TestMirrorAtTheAddressOfTheRegistry(t *testing.T) {
	long := "/v2/" + strings.Repeat("a", maxBeside)
	for name, test := range map[string]struct{ mirror, path, server, want string }{
		"another host":             {"mirror.test", "/v2/public", "host.test", "mirror.test"},
		"another port":             {"host.test:5000", "/v2/public", "host.test", "host.test:5000"},
		"a path":                   {"host.test", "/v2/public", "host.test", "host.test/v2/public"},
		"a path, with the port":    {"Host.test:443", "/v2/Public", "host.test", "Host.test:443/v2/Public"},
		"the registry, once more":  {"host.test:443", "/v2", "host.test", "host.test:443"},
		"no path":                  {"host.test", "", "host.test", "host.test/"},
		"Docker Hub":               {"docker.io", "/v2/public", "registry-1.docker.io", "docker.io/v2/public"},
		"what labels cannot have":  {"host.test", "/v2/a b,c\n%\xff", "host.test", "host.test/v2/a%20b%2Cc%0A%25%FF"},
		"a long path":              {"host.test", long, "host.test", "host.test/" + digest.FromString(long).Encoded()},
		"the name itself":          {"registry.test", "/v2/public", "registry.test", "registry.test"},
		"the name, not the server": {"registry.test", "/v2/public", "host.test", "registry.test"},
	} {
		list := []docker.RegistryHost{{Scheme: "https", Host: test.mirror, Path: test.path}, {Scheme: "https", Host: test.server, Path: "/v2"}}
		set := (&builder{}).set("registry.test", list)
		if got := set.Hosts()[0].By(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		if got := set.Hosts()[1].By(); got != test.server {
			t.Errorf("%s: the server is %q", name, got)
		}
	}
	set := (&builder{}).set("registry.test", []docker.RegistryHost{
		{Scheme: "http", Host: "host.test:5000", Path: "/v2"}, {Scheme: "https", Host: "host.test:5000", Path: "/v2"},
	})
	if got, want := set.Hosts()[0].By(), "host.test:5000/v2"; got != want {
		t.Errorf("by another scheme: %q, want %q", got, want)
	}
}

func TestReferenceOfAHost(t *testing.T) {
	for _, test := range []struct{ host, path, ref, want string }{
		{"mirror.test:5000", "/v2", "docker.io/library/nginx:1.27", "mirror.test:5000/library/nginx:1.27"},
		{"registry-1.docker.io", "/v2", "docker.io/library/nginx:1.27", "docker.io/library/nginx:1.27"},
		{"registry.test", "/v2", "registry.test/a/b@" + digest.FromString("x").String(), "registry.test/a/b@" + digest.FromString("x").String()},
		{"harbor.test", "/v2/hub-proxy", "docker.io/library/nginx:1.27", "harbor.test/hub-proxy/library/nginx:1.27"},
		{"harbor.test", "/v2/a/b", "quay.io/x:1", "harbor.test/a/b/x:1"},
		{"mirror.test", "/prefix/v2", "quay.io/x:1", "mirror.test/x:1"},
		{"mirror.test", "/prefix", "quay.io/x:1", "mirror.test/x:1"},
		{"mirror.test", "", "quay.io/x:1", "mirror.test/x:1"},
	} {
		spec, err := reference.Parse(test.ref)
		if err != nil {
			t.Fatal(err)
		}
		h := Host{RegistryHost: docker.RegistryHost{Host: test.host, Path: test.path}}
		if got := h.Reference(spec); got != test.want {
			t.Errorf("%s%s: got %s, want %s", test.host, test.path, got, test.want)
		}
	}
}

// The operator has configured whatever stands in a hosts.toml, and the names that
// have one; not those that references make up.
func TestConfigured(t *testing.T) {
	root := hostsDir(t, chain("http://mirror.test", "http://registry.test"))
	write(t, root, "_default", "[host.\"http://cache.test\"]\n")
	c := newCache(t, Options{Dirs: []string{root}})
	for name, want := range map[string]map[string]bool{
		registryName:  {"mirror.test": true, "registry.test": true},
		"other.test":  {"cache.test": true, "other.test": false},
		"docker.io":   {"cache.test": true, "registry-1.docker.io": false},
		"Others.test": {"cache.test": true, "Others.test": false},
	} {
		set, _ := use(t, c, name)
		if len(set.Hosts()) != len(want) {
			t.Errorf("%s has %d hosts", name, len(set.Hosts()))
		}
		for _, h := range set.Hosts() {
			if h.Configured != want[h.Host] {
				t.Errorf("%s of %s: configured is %v", h.Host, name, h.Configured)
			}
		}
	}
}
