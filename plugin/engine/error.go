// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Error is why a request failed.
type Error struct {
	Name   string
	Reason Reason
	// Class is None where no registry is to blame for the reason, whatever it said.
	Class failure.Class
	// Under is the directive that decided, with where it came from.
	Under string
	Err   error
}

// newError makes the error of a request that failed. A caller that went away
// gets its own context's error.
func newError(t task, c course) error {
	if c.end.reason == ReasonCanceled {
		return c.end.cause
	}
	class := c.class
	if c.end.reason != Reason(class) && c.end.reason != ReasonMaxStale {
		class = failure.None
	}
	return &Error{
		Name:   t.Name,
		Reason: c.end.reason,
		Class:  class,
		Under:  t.directives.Describe(deciding(told(c.end.reason), c.used)),
		Err:    c.end.cause,
	}
}

// Error names the image and the reason, the directive under which it is one, and
// what happened.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s under %s: %v", e.Name, told(e.Reason), e.Under, e.Err)
}

// told is a reason as the caller hears it: it does not learn of an image that it may
// not have.
func told(r Reason) Reason {
	if r == ReasonUnproved {
		return ReasonAbsent
	}
	return r
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// deciding is the directive that decides by a reason, of those that took part.
func deciding(reason Reason, used []policy.Key) policy.Key {
	switch reason {
	case ReasonHint:
		return policy.KeyHints
	case ReasonSource:
		return policy.KeyAllowedSources
	case ReasonMaxAge:
		return policy.KeyMaxAge
	case ReasonMaxStale:
		return policy.KeyMaxStale
	case ReasonUnproved:
		return policy.KeyAccess
	case ReasonMirrorFallback:
		return policy.KeyResolveFrom
	case ReasonPullDeadline:
		return policy.KeyPullDeadline
	}
	if on, ok := policy.KeyOn(failure.Class(reason)); ok && slices.Contains(used, on) {
		return on
	}
	return policy.KeyPolicy
}

// registryFailed ends a request that a failure of hosts in a phase fails. It says what
// they did, which ones the request's directive left out, and that there is a cached image
// which does not do, to callers who have proved that they may have it.
func registryFailed(t task, local Local, phase string, cause *resolver.Error, reason Reason) end {
	d := t.directives.Directives
	var b strings.Builder
	switch {
	case reason == ReasonMaxStale:
		b.WriteString(staleText(d, local.Age) + "; ")
	case local.Usable() && local.Grant.Given() && local.Remote && d.OnFailure(cause.Class) == policy.UseCached:
		b.WriteString(RemoteText + "; ")
	case local.Usable() && local.Grant.Given():
		fmt.Fprintf(&b, "the cached image, last checked %s, is not used; ", local.Age)
	}
	b.WriteString(phase + ": ")
	if reason != Reason(cause.Class) {
		b.WriteString(string(cause.Class) + ": ")
	}
	b.WriteString(cause.Detail())
	if len(cause.LeftOut) > 0 {
		fmt.Fprintf(&b, "; %s leaves out %s", t.directives.Describe(policy.KeyAllowedSources), strings.Join(cause.LeftOut, ", "))
	}
	return failed(reason, errors.New(b.String()))
}

// after adds what hosts did in a phase, where the cached image could not be used in their place.
func (e end) after(phase string, cause *resolver.Error) end {
	if e.kind == Failed && e.reason != ReasonCanceled {
		e.cause = fmt.Errorf("%w; %s: %s: %s", e.cause, phase, cause.Class, cause.Detail())
	}
	return e
}

// RemoteText says why a cached image is no fallback whose bytes are elsewhere.
const RemoteText = "the cached image is no fallback: its snapshots are remote, and what a container reads would be fetched from a registry"

// staleText says why the last check of a cached image is too long ago, or does
// not count.
func staleText(d policy.Directives, age Age) string {
	switch {
	case age == NeverChecked && d.CheckWith == policy.Manifest:
		return fmt.Sprintf("no check that counts has read the manifest of the cached image, and max_stale is %s", d.MaxStale)
	case age == NeverChecked:
		return fmt.Sprintf("the cached image was never checked, and max_stale is %s", d.MaxStale)
	case age < 0:
		return fmt.Sprintf("the last check of the cached image lies %s, and max_stale is %s", age, d.MaxStale)
	}
	return fmt.Sprintf("the cached image was last checked %s, and max_stale is %s", age, d.MaxStale)
}

// notOpened ends a request whose hosts cannot be asked.
func notOpened(err error) end {
	var sources *resolver.SourcesError
	if errors.As(err, &sources) {
		return failed(ReasonSource, err)
	}
	return failed(ReasonHosts, err)
}
