// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fault is a failure that was judged where it happened, and the one table
// of how failures are judged. docs/policies-and-failures.md says the same in
// words.
package fault

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// Fault is a failure that was judged where it happened. It does not unwrap:
// docker's resolver asks again, up to five times and at once, after whatever
// unwraps to a time-out or an EOF, and trying again is the transport's.
type Fault struct {
	Class          failure.Class // never None
	Err            error         // what happened; its text is clean
	Status         int           // of the answer that is the fault, 0 = another
	RetryAfter     time.Duration // what the answer asked for, 0 = nothing
	Temporary      bool          // may pass by itself: worth another try
	ShortCircuited bool          // nobody was asked: the host is in trouble
	Troubled       health.Key    // that host, where a guard knows it
	Elsewhere      bool          // not an answer of the host that was asked, or of its token server
}

// Error is the text of what happened.
func (f *Fault) Error() string { return f.Err.Error() }

// As returns the fault in an error's chain.
func As(err error) (*Fault, bool) { return errors.AsType[*Fault](err) }

// StatusText describes the status of an answer: 503 Service Unavailable.
func StatusText(status int) string {
	return fmt.Sprintf("%d %s", status, http.StatusText(status))
}
