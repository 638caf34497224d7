// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
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
