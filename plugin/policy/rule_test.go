// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with the .golden file beside a testdata file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	name := strings.TrimSuffix(file, ".toml") + ".golden"
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func testdata(t *testing.T, dir string, f func(t *testing.T, file string, data []byte)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.toml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/%s: %v", dir, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f(t, file, data)
		})
	}
}

// describe writes down what a rule says.
func describe(r *Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  images %q\n", r, r.Images)
	if r.Namespaces != nil {
		fmt.Fprintf(&b, "  namespaces %q\n", r.Namespaces)
	}
	for _, k := range Keys() {
		if r.Overrides.Has(k) {
			fmt.Fprintf(&b, "  %s %s\n", k, r.Overrides.values.Value(k))
		}
	}
	return b.String()
}

func TestParseValidRules(t *testing.T) {
	testdata(t, "valid", func(t *testing.T, file string, data []byte) {
		rules, err := ParseRules("/etc/containerd/pullwarden.d/"+filepath.Base(file), data)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for i := range rules {
			b.WriteString(describe(&rules[i]))
		}
		golden(t, file, b.String())
	})
}

func TestParseInvalidRules(t *testing.T) {
	testdata(t, "invalid", func(t *testing.T, file string, data []byte) {
		rules, err := ParseRules(filepath.Base(file), data)
		if err == nil || rules != nil {
			t.Fatalf("no error, %d rules", len(rules))
		}
		golden(t, file, err.Error()+"\n")
		if e, ok := errors.AsType[*tomlfile.Error](err); !ok || e.File != filepath.Base(file) {
			t.Errorf("%T does not name the file", err)
		}
	})
}

// Each key that a rule accepts is one the contract has, and none besides.
func TestRuleKeys(t *testing.T) {
	_, err := ParseRules("f.toml", []byte("[[rule]]\nimages = ['**']\nx = 1\non.x = 1\n"))
	want := "f.toml:3:1: rule[1].x: unknown key: allowed are images, namespaces, policy, " +
		"max_age, max_stale, verify_timeout, resolve_from, authority, govern, pull_deadline, check_with, checks_per_minute, pin, access, access_identity, access_ttl, allowed_sources, mode, hints, on\n" +
		"f.toml:4:4: rule[1].on.x: unknown key: allowed are unreachable, unavailable, " +
		"rate_limited, not_found, unauthorized, forbidden, invalid"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestRuleName(t *testing.T) {
	if got := (&Rule{File: "/etc/x/10-a.toml", Number: 2}).String(); got != "rule 10-a.toml#2" {
		t.Error(got)
	}
}
