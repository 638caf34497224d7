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

// ruleFile is a rule file as it was read.
type ruleFile struct {
	path string // absolute
	data []byte
}

// errNoDir says that the directory itself is missing.
var errNoDir = errors.New("the directory of config_path is not there")

// readFiles reads the rule files of a directory in the order of their names,
// with the stamps of the directory and of each file. The error lists every file
// that cannot be read, or is errNoDir; the stamps then are those of its
// absence.
func readFiles(dir string) ([]ruleFile, filestamp.Stamps, error) {
	entries, stamps, err := filestamp.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, stamps, fmt.Errorf("%w: %w", errNoDir, err)
	}
	if err != nil {
		return nil, stamps, fmt.Errorf("read the rules: %w", err)
	}
	var (
		files []ruleFile
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
		files = append(files, ruleFile{path, data})
	}
	return files, stamps, errors.Join(errs...)
}

// parseFiles returns the rules of all files. The error lists what is wrong in
// any of them.
func parseFiles(files []ruleFile) ([]policy.Rule, error) {
	var (
		rules []policy.Rule
		errs  []error
	)
	for _, f := range files {
		parsed, err := policy.ParseRules(f.path, f.data)
		rules, errs = append(rules, parsed...), append(errs, err)
	}
	return rules, errors.Join(errs...)
}

// sumOf tells the content of files from any other. It is never zero.
func sumOf(files []ruleFile) (s sum) {
	hash := sha256.New()
	for _, f := range files {
		_, _ = fmt.Fprintf(hash, "%q %d\n", f.path, len(f.data))
		hash.Write(f.data)
	}
	hash.Sum(s[:0])
	return s
}
