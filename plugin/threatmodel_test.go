// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every line of the threat model names the tests that hold it, and they exist: a
// line whose test was renamed or dropped does not stay.
func TestThreatModelIsHeld(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "access.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, model, ok := strings.Cut(string(page), "\n## Threat model\n")
	if !ok {
		t.Fatal("the page has no threat model")
	}
	tests := testNames(t)
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	for _, name := range named.FindAllStringSubmatch(string(page), -1) {
		if !tests[name[1]] {
			t.Errorf("there is no test %s", name[1])
		}
	}
	lines := 0
	for line := range strings.Lines(model) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if first := strings.TrimPrefix(cells[0], "| "); first != "can" && first != "cannot" {
			continue
		}
		lines++
		if len(cells) != 3 || !named.MatchString(cells[len(cells)-1]) {
			t.Errorf("no test holds the line %s", line)
		}
	}
	if lines < 40 {
		t.Errorf("%d lines: the tables are not read", lines)
	}
}

// testNames returns the names of all tests of the module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "build", "testdata"}, entry.Name()):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
