// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package registryname

import (
	"slices"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	for host, want := range map[string]string{
		"registry.example.com":          "registry.example.com",
		"Registry.Example.COM":          "registry.example.com",
		"registry.example.com:443":      "registry.example.com",
		"Registry.example.com:443":      "registry.example.com",
		"registry.example.com:80":       "registry.example.com:80",
		"registry.example.com:5000":     "registry.example.com:5000",
		"registry.example.com:1443":     "registry.example.com:1443",
		"docker.io":                     "docker.io",
		"index.docker.io":               "docker.io",
		"Registry-1.Docker.io:443":      "docker.io",
		"docker.io.evil.test":           "docker.io.evil.test",
		"registry-1.docker.io:5000":     "registry-1.docker.io:5000",
		"[::1]:443":                     "[::1]",
		"[FE80::443]":                   "[fe80::443]",
		"fe80::1:443":                   "fe80::1:443",
		"127.0.0.1:443":                 "127.0.0.1",
		"localhost":                     "localhost",
		"":                              "",
		"registry.example.com:443:443":  "registry.example.com:443:443",
		"auth.docker.io":                "auth.docker.io",
		"registry.example.com:0443":     "registry.example.com",
		"registry.example.com:05000":    "registry.example.com:5000",
		"registry.example.com:000":      "registry.example.com:0",
		"registry.example.com:":         "registry.example.com:",
		"registry.example.com:443x":     "registry.example.com:443x",
		"registry-1.docker.io:000443":   "docker.io",
		"[0:0::1]:05000":                "[::1]:5000",
		"[::ffff:a00:1]:5000":           "10.0.0.1:5000",
		"[::FFFF:10.0.0.1]":             "10.0.0.1",
		"[2001:DB8:0:0:0:0:0:1]":        "[2001:db8::1]",
		"[2001:DB8:0:0:0:0:0:1]:443":    "[2001:db8::1]",
		"[not an address]":              "[not an address]",
		"registry.example.com.:443":     "registry.example.com.",
		"xn--rgistry-bya.example.com":   "xn--rgistry-bya.example.com",
		"mirror.registry-1.docker.io":   "mirror.registry-1.docker.io",
		"REGISTRY.EXAMPLE.COM:5000":     "registry.example.com:5000",
		"Reg\u0130stry.Example.com:443": "reg\u0130stry.example.com",
		"doc\u212Aer.io":                "doc\u212Aer.io",
		"index.doc\u212Aer.io":          "index.doc\u212Aer.io",
		"Registry\xff.test":             "registry\xff.test",
		"registry.example.com:443/path": "registry.example.com:443/path",
	} {
		if got := Canonical(host); got != want {
			t.Errorf("%q is %q, want %q", host, got, want)
		}
	}
}

// TestManyZeros holds that a name takes no longer than to read it: the square of this one's length would
// take hours.
func TestManyZeros(t *testing.T) {
	zeros := strings.Repeat("0", 4<<20)
	for port, want := range map[string]string{"443": "registry.test", "5000": "registry.test:5000", "0": "registry.test:0"} {
		if got := Canonical("registry.test:" + zeros + port); got != want {
			t.Errorf("%s behind zeros: %.40s", port, got)
		}
	}
}

func TestAddress(t *testing.T) {
	for _, test := range [][3]string{
		{"https", "Registry.test:443", "registry.test"},
		{"https", "registry.test:80", "registry.test:80"},
		{"https", "registry-1.docker.io", "docker.io"},
		{"http", "Registry.test:80", "registry.test"},
		{"HTTP", "registry.test:443", "registry.test:443"},
		{"http", "[::1]:80", "[::1]"},
	} {
		if got := Address(test[0], test[1]); got != test[2] {
			t.Errorf("%s://%s is %q, want %q", test[0], test[1], got, test[2])
		}
	}
}

func TestRepository(t *testing.T) {
	for name, want := range map[string]string{
		"Registry.test:443/Team/app:1":        "registry.test/Team/app:1",
		"registry.test/team/app@sha256:0":     "registry.test/team/app@sha256:0",
		"index.docker.io/library/nginx:1.27":  "docker.io/library/nginx:1.27",
		"docker.io/app":                       "docker.io/library/app",
		"registry-1.docker.io/app:1":          "docker.io/library/app:1",
		"Docker.io:443/app@sha256:0":          "docker.io/library/app@sha256:0",
		"docker.io/team/app":                  "docker.io/team/app",
		"docker.io":                           "docker.io",
		"registry.test:5000/team:443/app:443": "registry.test:5000/team:443/app:443",
		"Registry.test":                       "Registry.test",
	} {
		if got := Repository(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

func TestSpellings(t *testing.T) {
	for host, want := range map[string][]string{
		"Registry.test":        {"registry.test", "registry.test:443"},
		"registry.test:443":    {"registry.test", "registry.test:443"},
		"registry.test:5000":   {"registry.test:5000"},
		"[::1]":                {"[::1]", "[::1]:443"},
		"registry-1.docker.io": {"docker.io", "index.docker.io", "registry-1.docker.io", "docker.io:443", "index.docker.io:443", "registry-1.docker.io:443"},
	} {
		if got := Spellings(host); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", host, got, want)
		}
	}
}
