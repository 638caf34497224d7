// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/pullwarden/pullwarden/internal/filestamp"
	"github.com/pullwarden/pullwarden/internal/keptfiles"
)

// File is a rule file as it was read.
type File = keptfiles.File

// ReadFiles reads the rule files of a directory in the order of their names. The
// error lists every file that cannot be read; the others are returned with it.
func ReadFiles(dir string) ([]File, error) {
	files, _, err := readFiles(dir)
	return files, err
}

// ErrNoDir says that the directory itself is missing.
var ErrNoDir = errors.New("the directory of config_path is not there")

// readFiles reads the rule files of a directory in the order of their names,
// with the stamps of the directory and of each file. The error lists every file
// that cannot be read, or is ErrNoDir; the stamps then are those of its
// absence.
func readFiles(dir string) ([]File, filestamp.Stamps, error) {
	entries, stamps, err := filestamp.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, stamps, fmt.Errorf("%w: %w", ErrNoDir, err)
	}
	if err != nil {
		return nil, stamps, fmt.Errorf("read the rules: %w", err)
	}
	var (
		files []File
		errs  []error
	)
	for _, e := range entries {
		// Editors and tools keep their own files under names that begin with a dot.
		if !strings.HasSuffix(e.Name(), ".toml") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		// A link, as a mounted ConfigMap has them, is followed.
		path := filepath.Join(dir, e.Name())
		data, stamp, err := filestamp.ReadFile(path)
		stamps = stamps.And(stamp)
		if err != nil {
			errs = append(errs, fmt.Errorf("read the rules: %w", err))
			continue
		}
		files = append(files, File{Path: path, Data: data})
	}
	return files, stamps, errors.Join(errs...)
}

// sumOf tells files, by their sum, and why others could not be read, from any other.
func sumOf(s keptfiles.Sum, err error) keptfiles.Sum {
	if err == nil {
		return s
	}
	return sha256.Sum256(append(s[:], err.Error()...))
}
