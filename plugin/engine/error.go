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
	Policy policy.Mode // empty when a hint was bad
	// From tells where the policy came from: default, section, a rule, hint.
	From string
	Err  error
}

// Error names the image, the policy and where it came from, and why.
func (e *Error) Error() string {
	if e.Policy == "" {
		return fmt.Sprintf("%s: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("%s: policy %s (%s): %v", e.Name, e.Policy, e.From, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func (d *decision) fail(reason Reason, err error) error {
	d.o.Reason = reason
	return &Error{
		Name:   d.req.Name,
		Reason: reason,
		Class:  d.o.Class,
		Policy: d.o.Decision.Policy,
		From:   d.o.Decision.From(policy.PolicyDirective),
		Err:    err,
	}
}
