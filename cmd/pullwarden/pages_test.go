// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	toml    = regexp.MustCompile("(?s)```toml\n(.*?)```")
)

// The configurations that operators copy from these pages have no mistake.
func TestDocumentedConfigurations(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"operations.md", "troubleshooting.md"} {
		for _, m := range toml.FindAllStringSubmatch(readPage(t, "../../docs/"+page), -1) {
			name := "pullwarden.d/10.toml"
			if strings.HasPrefix(m[1], "[plugins.") {
				name, m[1] = "config.toml", "version = 3\n"+m[1]
			}
			dir := write(t, map[string]string{name: m[1]})
			if r := run(t, dir, "check", name); strings.Contains(r.stdout, ": error PW") || r.stderr != "" {
				t.Errorf("%s has a mistake:\n%s\n%s%s", page, m[1], r.stdout, r.stderr)
			}
		}
	}
}

// Each link of the pages to a file of the project, or to a heading in it, leads there.
func TestLinks(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../../README.md") {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(readPage(t, page), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if anchor != "" && !anchors(readPage(t, target))[anchor] {
				t.Errorf("%s links to %s, a heading that is not there", page, m[1])
			}
		}
	}
}

// anchors returns those of a page's headings, as GitHub makes them.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		text := regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(m[1], "")
		text = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(text), "")
		found[strings.ReplaceAll(text, " ", "-")] = true
	}
	return found
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
