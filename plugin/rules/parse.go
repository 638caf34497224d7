// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"

	"github.com/pullwarden/pullwarden/internal/keptfiles"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// maxMistakes bounds the mistakes that are told of one version of the rules: they are one
// line of the log.
const maxMistakes = 64

// parsedFiles are the result of parsing some files.
type parsedFiles struct {
	of   keptfiles.Sum // of the files
	good good          // empty where there is a mistake
	err  error         // the mistakes
}

// parse returns the result of parsing files. Calls with the same files share it, while they
// are parsed and until others have been. The error is that of the context: the parsing goes on
// then, for calls that come later.
func (d *Dir) parse(ctx context.Context, files []File) (*parsedFiles, error) {
	of := keptfiles.SumOf(files)
	parsing := d.parsing.DoChan(string(of[:]), func() (any, error) {
		p := d.last.Load()
		if p == nil || p.of != of {
			p = &parsedFiles{of: of}
			p.good, p.err = d.goodRules(files)
			d.last.Store(p)
		}
		return p, nil
	})
	select {
	case result := <-parsing:
		p, _ := result.Val.(*parsedFiles)
		return p, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// goodRules parses the rules of files. The error lists the mistakes, as far as they are told.
func (d *Dir) goodRules(files []File) (good, error) {
	var (
		rules    []policy.Rule
		mistakes []error
	)
	for _, f := range files {
		parsed, err := d.parseFile(f.Path, f.Data)
		rules, mistakes = append(rules, parsed...), append(mistakes, each(err)...)
	}
	if mistakes != nil {
		return good{}, firstOf(mistakes)
	}
	return good{rules: policy.NewRules(d.Section, rules), parsed: rules, files: files, of: keptfiles.SumOf(files)}, nil
}

// each returns the errors that one joins.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// firstOf joins the first of the mistakes, and says how many more there are.
func firstOf(mistakes []error) error {
	more := len(mistakes) - maxMistakes
	if more <= 0 {
		return errors.Join(mistakes...)
	}
	return errors.Join(append(mistakes[:maxMistakes:maxMistakes], fmt.Errorf("%d more mistakes: pullwarden check names them all", more))...)
}
