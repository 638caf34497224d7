// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Error is why a request failed.
type Error struct {
	Name   string
	Reason Reason
	Class  failure.Class
	// Policy is the one that applied, with where it came from.
	Policy string
	Err    error
}

// newError makes the error of a request that failed. A caller that went away
// gets its own context's error.
func newError(t task, c course) error {
	if c.end.reason == ReasonCanceled {
		return c.end.cause
	}
	class := c.class
	if c.end.reason == ReasonInternal {
		class = failure.None // no registry is to blame, whatever it said
	}
	// The request may share its course with others, and its rule with none.
	cause := c.end.cause
	if c.end.reason == ReasonSource {
		cause = fmt.Errorf("%s: %w", t.directives.Describe(policy.KeyAllowedSources), cause)
	}
	return &Error{
		Name:   t.Name,
		Reason: c.end.reason,
		Class:  class,
		Policy: t.directives.Describe(policy.KeyPolicy),
		Err:    cause,
	}
}

// Error names the image, the policy and where it came from, and why.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %v", e.Name, e.Policy, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// staleText says why the last check of a cached image is too long ago, or does
// not count.
func staleText(d policy.Directives, age Age) string {
	switch {
	case age == NeverChecked:
		return fmt.Sprintf("the cached image was never checked, and max_stale is %s", d.MaxStale)
	case age < 0:
		return fmt.Sprintf("the last check of the cached image lies %s, and max_stale is %s", age, d.MaxStale)
	}
	return fmt.Sprintf("the cached image was last checked %s, and max_stale is %s", age, d.MaxStale)
}
