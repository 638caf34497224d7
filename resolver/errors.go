// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// ErrNoProgress marks the error of a transfer that containerd ended because
// nothing came any more. Its class is unreachable, unless a registry refused the
// credentials.
var ErrNoProgress = errors.New("no progress")

// Attempt is one host that was tried and failed.
type Attempt struct {
	Host    string        // host[:port] that was asked, such as registry-1.docker.io; with a path behind it: see hosts.Host.By
	Origin  bool          // whether it is the registry that the name says
	Spelled string        // the other spelling of that name by which it was asked; "" = its one
	Class   failure.Class // never None
	Refused bool          // the host itself, or its token server, refused the caller
	Err     error         // what happened; no credentials, no URL queries, one line
	Elapsed time.Duration // from asking this host to giving it up; 0 = not measured

	by *host // that was asked: there may be several ways to the one that Host names; nil = none of the session's

	// Authority says that this counts like an answer of the origin: a host that
	// [Query.Authority] names has itself refused the caller, or not found the image.
	Authority bool
}

// Error says that no host gave what it was asked for, and why each failed.
type Error struct {
	Reference string
	Class     failure.Class // of an authority's answer, else of the origin if it was tried, else of the last host tried: see Attempt.weight
	Attempts  []Attempt     // in the order tried; empty when there is no host to ask
	LeftOut   []string      // hosts that Query.Allow does not allow, and that were not asked

	Heard // in the pull; zero for a check
}

func newError(reference string, attempts []Attempt, leftOut ...string) *Error {
	return &Error{Reference: reference, Class: decidingClass(attempts), Attempts: attempts, LeftOut: leftOut}
}

// decidingClass is the class of the attempt with the most weight; of the last one
// where several have the same.
func decidingClass(attempts []Attempt) failure.Class {
	class, heaviest := failure.Invalid, 0
	for _, a := range attempts {
		if w := a.weight(); w >= heaviest {
			class, heaviest = a.Class, w
		}
	}
	return class
}

// weight says how much an attempt proves about the image. A mirror's failure proves
// nothing: 0. Silence of the registry that the name says has weight 1, and a failure by which one
// of the paths to it has answered 2. An authority's "not found" has 3, since that registry may only
// be out of reach. A refusal by one of these two has weight 4: in doubt the stricter class counts.
func (a Attempt) weight() int {
	switch {
	case a.Authority && a.Class == failure.NotFound:
		return 3
	case a.Authority, a.Origin && a.Refused:
		return 4
	case a.Origin && !a.Class.Silent():
		return 2
	case a.Origin:
		return 1
	}
	return 0
}

// Refusals returns the attempts at which the host itself refused the caller.
func (e *Error) Refusals() (refusals []Attempt) {
	for _, a := range e.Attempts {
		if a.Refused {
			refusals = append(refusals, a)
		}
	}
	return refusals
}

// Error names the class and every host that was tried, with the cause of each
// failure. It holds no credentials and no URL queries.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %s", e.Reference, e.Class, e.Detail()) }

// Detail is Error without the reference and the class. A host tells its own class
// where that is another one.
func (e *Error) Detail() string {
	var b strings.Builder
	if len(e.Attempts) == 0 {
		b.WriteString("there is no host to ask")
	}
	for i, a := range e.Attempts {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "host %s", a.Host)
		if a.Class != e.Class {
			fmt.Fprintf(&b, ": %s", a.Class)
		}
		if a.Elapsed > 0 {
			fmt.Fprintf(&b, " after %s", rounded(a.Elapsed))
		}
		fmt.Fprintf(&b, ": %v", a.Err)
	}
	return b.String()
}

// Is lets errdefs.IsNotFound see that the image does not exist. Other classes
// have no gRPC code of their own, and must not get one from a cause: that is
// why Error does not unwrap to its attempts.
func (e *Error) Is(target error) bool {
	return e.Class == failure.NotFound && target == errdefs.ErrNotFound
}

// rounded drops the digits that nobody reads; what is quicker than a millisecond is no 0s.
func rounded(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return d.Round(time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
