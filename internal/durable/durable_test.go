// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A file is replaced as a whole, with its mode, and nothing is left beside it, also
// where it cannot be put in place: the error names the file, and is the same each time.
func TestWriteFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	path := filepath.Join(dir, "file")
	for _, content := range []string{"a longer first", "second"} {
		if err := WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("it has %q, %v", got, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("it is %v, %v", info.Mode(), err)
		}
	}
	inTheWay := filepath.Join(dir, "directory")
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{inTheWay, "/proc/no-file-can-be-made-here"} {
		first, second := WriteFile(path, nil, 0o600), WriteFile(path, nil, 0o600)
		var e *fs.PathError
		if !errors.As(first, &e) || e.Path != path || first.Error() != second.Error() {
			t.Errorf("%v, and the next time %v", first, second)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("there are %v, %v", entries, err)
	}
}
