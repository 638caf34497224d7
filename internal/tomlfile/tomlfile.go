// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tomlfile decodes TOML files so that an operator learns everything that
// is wrong in one of them at once, with file, line, column and key.
//
// go-toml reads the syntax. Its own decoder into structs, even in strict mode
// (Decoder.DisallowUnknownFields), does not do for rules that must hold as they
// are written; gotoml_test.go shows each point:
//
//   - It stops at the first bad value, and then does not report unknown keys.
//   - It does not call UnmarshalText for strings where the type is a string
//     itself: any text is taken for a policy.
//   - It calls UnmarshalText for numbers and booleans, and reports the error
//     without a position.
//   - It takes a table for an array of tables: [rule] would be one [[rule]].
//   - It matches keys in any letter case, and fields without a tag by their names.
//   - It reports a key without the elements of arrays in its path, and without the
//     keys that are allowed; its messages speak of Go types.
//
// So it decodes into a tree of maps and slices, which [Decode] assigns to the
// struct; [Positions] finds the keys of the tree in the text.
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
	Kind    Kind
}

// Kind is the kind of a problem.
type Kind uint8

// The kinds of problems.
const (
	BadValue   Kind = iota // of a key that is known
	UnknownKey             // also one that is known in another case only
	BadSyntax              // the file is no TOML, or sets a key twice
)

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
