// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shorterror bounds the texts of errors. containerd's repeat what images say, such as the
// name of a file in a layer, which can have a megabyte, and the reason behind that.
package shorterror

import "strings"

// reworded is an error with another text.
type reworded struct {
	text string
	err  error
}

// endPart is how much of a text is left for its end: one part of that many. The beginning says what has failed, and the
// end why, such as "no such file or directory".
const endPart = 4

// WithText returns the error with that text; the very error where that is its own.
func WithText(err error, text string) error {
	if err.Error() == text {
		return err
	}
	return &reworded{text: text, err: err}
}

// Bounded returns the error with a text of about that many bytes at the most, of which the middle is left out; nil for nil.
func Bounded(err error, bytes int) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) <= bytes {
		return err
	}
	last := bytes / endPart
	beginning, end := text[:bytes-last], text[len(text)-last:]
	return &reworded{text: strings.ToValidUTF8(beginning, "") + "…" + strings.ToValidUTF8(end, ""), err: err}
}

func (e *reworded) Error() string { return e.text }
func (e *reworded) Unwrap() error { return e.err }
