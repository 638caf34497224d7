// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"
)

func TestSources(t *testing.T) {
	rules := parseRules(t, `[[rule]]
images = ["**"]
allowed_sources = ["mirror.test:5000", "*.corp.test", "[[]::1]:5000"]
`)
	d, err := NewRules(Overrides{}, rules).For(Subject{Image: Image{Repository: "registry.test/app"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Describe(KeyAllowedSources); got != "allowed_sources=mirror.test:5000 *.corp.test [[]::1]:5000(rule 10-a.toml#1)" {
		t.Errorf("described as %s", got)
	}
	for host, want := range map[string]bool{
		"mirror.test:5000":    true,
		"mirror.test":         false,
		"mirror.test:5001":    false,
		"a.corp.test":         true,
		"corp.test":           false,
		"a.corp.test:443":     true,
		"A.Corp.test":         true,
		"a.corp.test:80":      false,
		"Mirror.test:5000":    true,
		"[::1]:5000":          true,
		"":                    false,
		"mirror.test:5000/up": false,
	} {
		if got := d.AllowedSources.Allow(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
	for _, text := range []string{"*", "**", "{*,a.test}", "{,a.test}"} {
		if all, err := parseSources(text); err != nil || all.All() || !all.Allow("a.test") || all.Allow("") {
			t.Errorf("%s allows a host of which nobody knows the name: %v", text, err)
		}
	}
	if none := (Sources{}); !none.All() || !none.Allow("anything") {
		t.Error("the zero value does not allow all")
	}
}

func TestBadSources(t *testing.T) {
	for list, want := range map[string]string{
		`[]`:                              "leave it out",
		`[""]`:                            "names no host",
		`["https://mirror.test"]`:         "without a scheme",
		`["mirror.test/path"]`:            "host[:port]",
		`["user@mirror.test"]`:            "host[:port]",
		`["a b"]`:                         "host[:port]",
		`["[mirror"]`:                     "not a valid glob",
		`"mirror.test"`:                   "array",
		`["ok.test", "https://bad.test"]`: "allowed_sources[2]",
	} {
		_, err := ParseRules("f.toml", []byte("[[rule]]\nimages = ['**']\nallowed_sources = "+list+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "f.toml:3") {
			t.Errorf("%s: %v, want %q", list, err, want)
		}
	}
}

// A list is about registries, by whichever of their names.
func TestSpelledSources(t *testing.T) {
	for list, hosts := range map[string]map[string]bool{
		"Registry.test:443":    {"registry.test": true, "registry.test:443": true, "REGISTRY.test": true, "registry.test:80": false},
		"registry-1.docker.io": {"docker.io": true, "index.docker.io": true, "registry-1.docker.io:443": true, "auth.docker.io": false},
		"*.TEST:443":           {"registry.test": true, "Registry.Test:443": true, "registry.test:5000": false},
		"docker.*":             {"registry-1.docker.io": true},
		"[::1]:5000":           {"[::1]:5000": true, "[0:0::1]:05000": true, "[::2]:5000": false, "[::1]": false},
		"[[]0:0::1]:5000":      {"[::1]:5000": true, "[::2]:5000": false},
		`\[0:0::1\]`:           {"[::1]": true, "[::1]:443": true, "[::2]": false},
		"*.test:05000":         {"registry.test:5000": true, "registry.test:05000": true, "registry.test": false},
		"registry.test:05000":  {"registry.test:5000": true, "registry.test:005000": true, "registry.test": false},
	} {
		var g SourceGlob
		if err := g.UnmarshalText([]byte(list)); err != nil {
			t.Fatal(err)
		}
		sources := newSources([]SourceGlob{g})
		if sources.String() != list {
			t.Errorf("%s is shown as %s", list, sources)
		}
		for host, want := range hosts {
			if got := sources.Allow(host); got != want {
				t.Errorf("%s, %s: %v", list, host, got)
			}
		}
	}
}
