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
		"a.corp.test:443":     false,
		"[::1]:5000":          true,
		"":                    false,
		"mirror.test:5000/up": false,
	} {
		if got := d.AllowedSources.Allow(host); got != want {
			t.Errorf("%q: %v", host, got)
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
