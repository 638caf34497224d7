// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"path/filepath"
	"slices"
)

// mains returns the configurations with which a containerd would start, each once: first, if that is
// not "", then those called config.toml, then the others. What another one imports is checked with that,
// and is none of its own.
func mains(configs []string, first string) []string {
	var all []string
	if first != "" {
		all = append(all, first)
	}
	isNamed := func(file string) bool { return filepath.Base(file) == "config.toml" }
	for _, file := range configs {
		if isNamed(file) {
			all = append(all, file)
		}
	}
	for _, file := range configs {
		if !isNamed(file) {
			all = append(all, file)
		}
	}
	imports := map[string]map[string]bool{} // of each, and of these, by place; itself included
	var kept []string
	for _, file := range all {
		if imports[place(file)] != nil {
			continue // it is there twice
		}
		found := &configuration{}
		(&checker{}).imported(found, file, map[string]bool{}) // what it reports is reported later
		reached := map[string]bool{place(file): true}
		for _, d := range found.documents {
			reached[place(d.file)] = true
		}
		imports[place(file)], kept = reached, append(kept, file)
	}
	return slices.DeleteFunc(kept, func(file string) bool {
		for other, reached := range imports {
			// Of those that import each other, all are kept: which one is meant nobody knows.
			if file != first && reached[place(file)] && !imports[place(file)][other] {
				return true
			}
		}
		return false
	})
}

// place is a path by which a file is known, however its directory is spelled. A link to a file is another
// file than that: in a directory both count.
func place(path string) string {
	return filepath.Join(realDir(filepath.Dir(path)), filepath.Base(path))
}

// realDir is the path of a directory without links; as it is spelled where that is not known.
func realDir(dir string) string {
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	return dir
}
