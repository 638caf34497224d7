// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shorterror bounds the texts of errors. containerd's repeat what images say, such as the
// name of a file in a layer, which can have a megabyte.
package shorterror

import "strings"

// bounded is an error with the beginning of its text.
type bounded struct {
	text string
	err  error
}

// Bounded returns the error with a text of about that many bytes at the most; nil for nil.
func Bounded(err error, bytes int) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) <= bytes {
		return err
	}
	return &bounded{text: strings.ToValidUTF8(text[:bytes], "") + "…", err: err}
}

func (e *bounded) Error() string { return e.text }
func (e *bounded) Unwrap() error { return e.err }
