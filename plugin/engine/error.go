// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"time"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// timeGrain is how exactly a person is told how long ago something was.
const timeGrain = time.Second

// Error is why a request failed.
type Error struct {
	Name   string
	Reason Reason
	Class  failure.Class
	// Policy is the one that applied, with where it came from.
	Policy string
	Err    error
}

// Error names the image, the policy and where it came from, and why.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %v", e.Name, e.Policy, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func (d *decision) fail(reason Reason, err error) error {
	d.o.Reason = reason
	class := d.o.Class
	if reason == ReasonInternal {
		class = failure.None // no registry is to blame, whatever it said
	}
	return &Error{
		Name:   d.req.Name,
		Reason: reason,
		Class:  class,
		Policy: d.o.Decision.Describe(policy.KeyPolicy),
		Err:    err,
	}
}
