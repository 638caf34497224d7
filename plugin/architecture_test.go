// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/pullwarden/pullwarden/"

// TestDirections holds the arrows of doc.go: which packages a package may not
// import. Tests may.
func TestDirections(t *testing.T) {
	for dir, forbidden := range map[string][]string{
		"plugin/policy":    {"github.com/containerd/", module + "plugin/", module + "store"},
		"plugin/engine":    {module + "plugin/cri", module + "plugin/transfer", "k8s.io/"},
		"plugin/transfer":  {module + "plugin/", module + "resolver"},
		"plugin/cri":       {module + "plugin\""},
		"resolver":         {module + "plugin", module + "store"},
		"resolver/failure": {module, "github.com/"},
		"store":            {module + "plugin"},
		"internal":         {module + "plugin/", module + "resolver", module + "store"},
	} {
		for file, imports := range importsBelow(t, filepath.Join("..", dir)) {
			for _, path := range imports {
				for _, f := range forbidden {
					// A closing quote makes the path exact.
					if strings.HasPrefix(path+`"`, f) {
						t.Errorf("%s imports %s", file, path)
					}
				}
			}
		}
	}
}

// importsBelow returns the imports of each file that is no test.
func importsBelow(t *testing.T, dir string) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		imports[path] = nil
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports[path] = append(imports[path], name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(imports) == 0 {
		t.Fatalf("no files in %s", dir)
	}
	return imports
}
