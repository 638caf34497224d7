// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rulesync

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/pullwarden/pullwarden/internal/durable"
	"github.com/pullwarden/pullwarden/plugin/check"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/rules"
	"github.com/pullwarden/pullwarden/plugin/ruletest"
)

// The directories of a version while it is looked at: those that cases name, as in a
// repository with pullwarden.d and pullwarden.tests side by side.
const (
	rulesDir = "pullwarden.d"
	casesDir = "pullwarden.tests"
)

// tempDir is the pattern of the directory's name that holds both.
const tempDir = "pullwarden-rules-*"

// validate holds a version to all that pullwarden check and pullwarden test do. The error
// lists what is wrong; the warnings keep nothing from being taken.
func (s *source) validate() (warnings []string, err error) {
	if err := s.sameTogether(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", tempDir)
	if err != nil {
		return nil, durable.WithPath(err, os.TempDir())
	}
	defer func() { err = anyTempDir(errors.Join(err, os.RemoveAll(dir)), dir) }()
	var paths []string
	for _, of := range []struct {
		dir   string
		files []rules.File
	}{{filepath.Join(dir, rulesDir), s.rules}, {filepath.Join(dir, casesDir), s.cases}} { // always the same first, for the same error
		if err := os.Mkdir(of.dir, 0o700); err != nil {
			return nil, err
		}
		for _, f := range of.files {
			if err := os.WriteFile(filepath.Join(of.dir, f.Path), f.Data, 0o600); err != nil {
				return nil, err
			}
		}
		if len(of.files) > 0 {
			paths = append(paths, of.dir)
		}
	}
	warnings, err = findings(paths)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, f := range s.cases {
		failed = append(failed, runCases(filepath.Join(dir, casesDir, f.Path)))
	}
	return warnings, errors.Join(failed...)
}

// anyTempDir returns the error with the pattern of the directory's name, which is another one each time: Watch compares errors.
func anyTempDir(err error, dir string) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(err.Error(), dir, filepath.Join(filepath.Dir(dir), tempDir)))
}

// sameTogether reports whether the one file has the same rules as all files have.
func (s *source) sameTogether() error {
	var apart []policy.Rule
	for _, f := range s.rules {
		parsed, err := policy.ParseRules(f.Path, f.Data)
		if err != nil {
			return err
		}
		apart = append(apart, parsed...)
	}
	together, err := policy.ParseRules("all files together", []byte(s.render()))
	if err != nil {
		return fmt.Errorf("write each rule below a line [[rule]], so that the files can be one: %w", err)
	}
	if len(together) != len(apart) {
		return errors.New("the files are not the same rules in one file: write each rule below a line [[rule]]")
	}
	for i := range apart {
		a, b := &apart[i], &together[i]
		if !reflect.DeepEqual(a.Images, b.Images) || !reflect.DeepEqual(a.Namespaces, b.Namespaces) || !reflect.DeepEqual(a.Overrides, b.Overrides) {
			return fmt.Errorf("%s is another rule in one file with the others: write it below a line [[rule]]", a)
		}
	}
	return nil
}

// findings returns what pullwarden check finds at paths: warnings, and errors as an error.
func findings(paths []string) (warnings []string, err error) {
	if len(paths) == 0 {
		return nil, nil
	}
	var mistakes []error
	report := check.Paths(paths, "")
	for i := range report.Findings {
		f := &report.Findings[i]
		text := strings.TrimPrefix(f.Key+": "+f.Text, ": ")
		text = fmt.Sprintf("%s:%d: %s %s", filepath.Base(f.File), f.Line, f.ID, text)
		if f.Severity == check.Error {
			mistakes = append(mistakes, errors.New(text))
		} else {
			warnings = append(warnings, text)
		}
	}
	return warnings, errors.Join(mistakes...)
}

// runCases returns an error that lists the cases of a file which do not hold.
func runCases(file string) error {
	results, err := ruletest.Run(file)
	failed := []error{err}
	for _, r := range results {
		for _, d := range r.Differences {
			failed = append(failed, fmt.Errorf("%s:%d: %s: %s: expected %q, got %q", filepath.Base(r.File), r.Line, r.Name, d.Key, d.Want, d.Got))
		}
	}
	return errors.Join(failed...)
}
