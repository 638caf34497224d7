// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"errors"
	"strings"
)

// ErrGone is why a pull, or a comparison, has come to nothing: the image that it has stored,
// or compares, is not there any more.
var ErrGone = errors.New("the image was removed meanwhile")

// maxErrorText bounds the text of containerd's errors, in bytes: they repeat what images
// say, such as the name of a file in a layer, which can have a megabyte.
const maxErrorText = 1 << 10

// boundedError is an error with the beginning of its text.
type boundedError struct {
	text string
	err  error
}

// bounded returns the error with a text that is not too long; nil for nil.
func bounded(err error) error {
	if err == nil || len(err.Error()) <= maxErrorText {
		return err
	}
	return &boundedError{text: strings.ToValidUTF8(err.Error()[:maxErrorText], "") + "…", err: err}
}

func (e *boundedError) Error() string { return e.text }
func (e *boundedError) Unwrap() error { return e.err }
