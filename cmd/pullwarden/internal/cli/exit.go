// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import "errors"

// The exit codes of all verbs. Scripts rely on them.
const (
	exitOK       = 0
	exitFailed   = 1 // check: errors; test: a case does not hold; status: degraded; explain: the pod fails
	exitUsage    = 2 // the command line, or the daemon, is not to be used
	exitWarnings = 3 // check: warnings only
	exitDepends  = 3 // explain: it depends on a registry that was not asked, or on containerd's own pull
)

// exit ends a verb that has shown its result with a code.
type exit int

// Error is not shown.
func (exit) Error() string { return "" }

// usageError is a command line that is wrong. Its text is shown.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// unreachableError says why pullwarden in the daemon does not answer. Its text is shown.
type unreachableError struct{ error }

func (e unreachableError) Unwrap() error { return e.error }

// codeOf returns the exit code for the error of a verb.
func codeOf(err error) int {
	if code, ok := errors.AsType[exit](err); ok {
		return int(code)
	}
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(usageError)), errors.As(err, new(unreachableError)):
		return exitUsage
	}
	return exitFailed
}
