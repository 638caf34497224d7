// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"unicode"
)

// Who names files, and writes into them, makes up no lines of what check and test show, and
// tells the terminal nothing.
func TestFilesThatAreNotPrintable(t *testing.T) {
	t.Parallel()
	const hostile = "a\n0 files, no findings\n\x1b[2J\xff\u202e"
	const escaped = `a\n0 files, no findings\n\x1b[2J\xff\u202e`
	for what, tt := range map[string]struct {
		file, content string
		args          []string
		code          int
	}{
		"a file with a mistake": {hostile + ".toml", "[[rule]]\nimages = 1\n", []string{"check", "."}, 1},
		"a file that is gone":   {"a.toml", "", []string{"check", hostile + ".toml"}, 1},
		"a file that is named":  {hostile + "/hosts.toml", "[host.'https://m.test']\nca = 'b\u202e.pem'\n", []string{"check", "."}, 1},
		"a file of cases":       {hostile + ".toml", "[[case]]\nimage = 1\n", []string{"test", hostile + ".toml"}, 1},
		"cases that are gone":   {"a.toml", "", []string{"test", hostile + ".toml"}, 1},
		"a case": {hostile + ".toml", `rules = ["rules"]
[[case]]
name = "a\n0 files, no findings\n\u001b[2J"
image = "nginx"
expect = { rule = "\u001b[2J\n0 files, no findings\n.toml#1" }
`, []string{"test", hostile + ".toml"}, 1},
	} {
		dir := write(t, map[string]string{tt.file: tt.content, "rules/.keep": ""})
		r := run(t, dir, tt.args...)
		told := r.stdout + r.stderr
		if r.code != tt.code || !strings.Contains(told, escaped) {
			t.Errorf("%s: exit %d\n%s", what, r.code, told)
		}
		for line := range strings.Lines(told) {
			if line = strings.TrimSuffix(line, "\n"); line == "0 files, no findings" || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
				t.Errorf("%s: a line is %q", what, line)
			}
		}
	}
}
