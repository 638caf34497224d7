// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"", 0, "Usage:", ""},
		{"--help", 0, "--address", ""},
		{"--version", 0, "pullwarden version ", ""},
		{"tset", 2, "", "there is no verb \"tset\" (did you mean test?)\nSee 'pullwarden --help'\n"},
		{"check --colour", 2, "", "unknown flag: --colour"},
		{"check -o yaml", 2, "", "allowed are table, json"},
		{"status -o xml", 2, "", "allowed are table, json, wide, yaml"},
		{"status -q -o json", 2, "", "-q and -o exclude each other"},
		{"status --older-than=-1h", 2, "", "must not be negative"},
		{"status registry.test/app:1", 2, "", "there is an argument too many: \"registry.test/app:1\"\nUsage: pullwarden status"},
		{"explain", 2, "", "name one reference of an image, not 0\nUsage: pullwarden explain REF"},
		{"explain a b", 2, "", "not 2\nUsage: pullwarden explain REF"},
		{"explain a --hint policy", 2, "", "--hint policy: write it as key=value"},
		{"explain a --hint policy=Never --hint pullwarden.io/policy=Always", 2, "", "the key is there twice"},
		{"explain a --creds-file x --docker-config y", 2, "", "--creds, --creds-file and --docker-config exclude each other"},
		{"explain a --creds-file /nowhere", 2, "", "/nowhere: no such file"},
		{"explain a --creds alice", 2, "", "there is no password of alice on standard input"},
		{"explain a -o wide", 2, "", "allowed are table, json, yaml"},
		{"test", 2, "", "name at least one file\nUsage: pullwarden test FILE…"},
		{"install --timeout=-1s", 2, "", "--timeout -1s: must be positive"},
		{"install now", 2, "", "there is an argument too many: \"now\"\nUsage: pullwarden install"},
		{"uninstall --from x", 2, "", "unknown flag: --from"},
		{"uninstall -o wide", 2, "", "allowed are table, json"},
		{"completion bash", 0, "bash completion", ""},
		{"completion zsh", 0, "#compdef pullwarden", ""},
		{"completion fish", 0, "fish completion", ""},
		{"__complete check --output j", 0, "json\n", ""},
	} {
		r := run(t, t.TempDir(), strings.Fields(test.args)...)
		if r.code != test.code || !strings.Contains(r.stdout, test.stdout) || !strings.Contains(r.stderr, test.stderr) {
			t.Errorf("%s: exit %d\n%s\n%s", test.args, r.code, r.stdout, r.stderr)
		}
		if test.code != 0 && (r.stdout != "" || !strings.HasPrefix(r.stderr, "pullwarden: ")) {
			t.Errorf("%s: standard output has %q, standard error %q", test.args, r.stdout, r.stderr)
		}
	}
}

// Help is read in terminals of 80 columns.
func TestHelpFits(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--help", "check --help", "explain --help", "install --help", "status --help", "test --help", "uninstall --help"} {
		for line := range strings.Lines(run(t, t.TempDir(), strings.Fields(args)...).stdout) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s has a line of %d columns: %s", args, n, line)
			}
		}
	}
}
