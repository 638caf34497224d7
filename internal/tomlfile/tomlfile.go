// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tomlfile decodes TOML files so that whatever is wrong in one of them
// is reported with file, line and column, all problems at once. Values whose
// type reads itself from text (encoding.TextUnmarshaler) are reported at their
// place too, which go-toml does not do.
package tomlfile

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Error is one problem of a TOML file.
type Error struct {
	File    string // as given by the caller; "" = not known
	Line    int    // counted from 1; 0 = the file as a whole
	Column  int    // in bytes, counted from 1; 0 = the line as a whole
	Key     string // path of the key as [Positions] spells it; "" = no single key
	Message string // what is wrong, and what would be right
}

// Error returns "file:line:column: key: message" without the parts that are
// not known.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	for _, n := range []int{e.Line, e.Column} {
		if n == 0 {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(':')
		}
		b.WriteString(strconv.Itoa(n))
	}
	for _, part := range []string{e.Key, e.Message} {
		if part == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(part)
	}
	return b.String()
}

// Join returns one error that lists errs, one a line, in the order in which
// they stand in the file; nil when there are none. errors.As finds the first.
func Join(errs ...*Error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(e *Error) bool { return e == nil })
	slices.SortStableFunc(errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	joined := make([]error, len(errs))
	for i, e := range errs {
		joined[i] = e
	}
	return errors.Join(joined...)
}
