// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every identifier leads to a paragraph, and every paragraph is about one.
func TestEveryIDIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/checks.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []ID
	for _, heading := range regexp.MustCompile(`(?m)^### (.*)\n\n\*\*(error|warning)\*\* `).FindAllStringSubmatch(string(page), -1) {
		id := ID(heading[1])
		if !slices.Contains(IDs(), id) {
			t.Errorf("docs/checks.md has a paragraph on %s, which there is not", id)
		} else if string(id.Severity()) != heading[2] {
			t.Errorf("docs/checks.md: %s is no %s", id, heading[2])
		}
		documented = append(documented, id)
	}
	if !slices.Equal(documented, IDs()) {
		t.Errorf("docs/checks.md has %q\nwant %q", documented, IDs())
	}
	if n := strings.Count(string(page), "\n### "); n != len(documented) {
		t.Errorf("docs/checks.md has %d headings, and %d of them name an identifier and its severity", n, len(documented))
	}
}

// The files that these pages show, each under the path in its first line,
// have no mistakes.
func TestShownFilesHaveNoMistakes(t *testing.T) {
	for name, least := range map[string]int{"harbor.md": 5, "ecr.md": 4, "fresh.md": 3} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```toml\\n *# (/etc/containerd/\\S+)\\n(.*?)```").FindAllStringSubmatch(string(page), -1)
		if len(blocks) < least || len(blocks) != strings.Count(string(page), "```toml") {
			t.Errorf("%s: %d files are found", name, len(blocks))
		}
		for _, block := range blocks { // two of one path are alternatives
			root := t.TempDir()
			path := filepath.Join(root, block[1])
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(block[2]), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, found := range Paths([]string{root}, "").Findings {
				t.Errorf("%s: %s: %+v", name, block[1], found)
			}
		}
	}
}
