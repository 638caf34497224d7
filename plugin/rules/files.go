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
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// File is a rule file as it was read.
type File struct {
	Path string
	Data []byte
}

// ReadFiles reads the rule files of a directory in the order of their names. The
// error lists every file that cannot be read; the others are returned with it.
func ReadFiles(dir string) ([]File, error) {
	files, _, err := readFiles(dir)
	return files, err
}

// errNoDir says that the directory itself is missing.
var errNoDir = errors.New("the directory of config_path is not there")

// readFiles reads the rule files of a directory in the order of their names,
// with the stamps of the directory and of each file. The error lists every file
// that cannot be read, or is errNoDir; the stamps then are those of its
// absence.
func readFiles(dir string) ([]File, filestamp.Stamps, error) {
	entries, stamps, err := filestamp.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, stamps, fmt.Errorf("%w: %w", errNoDir, err)
	}
	if err != nil {
		return nil, stamps, fmt.Errorf("read the rules: %w", err)
	}
	var (
		files []File
		errs  []error
	)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".toml") {
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
		files = append(files, File{path, data})
	}
	return files, stamps, errors.Join(errs...)
}

// parseFiles returns the rules of all files. The error lists what is wrong in
// any of them.
func parseFiles(files []File) ([]policy.Rule, error) {
	var (
		rules []policy.Rule
		errs  []error
	)
	for _, f := range files {
		parsed, err := policy.ParseRules(f.Path, f.Data)
		rules, errs = append(rules, parsed...), append(errs, err)
	}
	return rules, errors.Join(errs...)
}

// sumOf tells the content of files from any other. It is never zero.
func sumOf(files []File) (s sum) {
	hash := sha256.New()
	for _, f := range files {
		_, _ = fmt.Fprintf(hash, "%q %d\n", f.Path, len(f.Data))
		hash.Write(f.Data)
	}
	hash.Sum(s[:0])
	return s
}

// with tells the same files with that error from those without, or with another one.
func (s sum) with(err error) sum {
	if err == nil {
		return s
	}
	return sha256.Sum256(append(s[:], err.Error()...))
}
