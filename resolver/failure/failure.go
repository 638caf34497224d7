// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package failure names the ways in which a registry can fail to answer. It
// imports nothing, so that policy (which says what to do about a failure) and
// resolver (which finds out what it was) can share one vocabulary.
package failure

import (
	"fmt"
	"strings"
)

// Class is the kind of a failed check or pull. The zero value, None, means
// that the registry was not at fault, or did not fail.
type Class string

const (
	None         Class = ""
	Unreachable  Class = "unreachable"  // no answer: name not resolved, refused, reset, timed out
	Unavailable  Class = "unavailable"  // 5xx, from the registry or its token server
	RateLimited  Class = "rate_limited" // 429
	NotFound     Class = "not_found"    // 404, 410
	Unauthorized Class = "unauthorized" // 401 after one retry with a fresh token; credentials refused
	Forbidden    Class = "forbidden"    // 403
	Invalid      Class = "invalid"      // an answer that breaks the protocol or a promise
)

// All lists the classes in the order in which the documentation shows them.
func All() []Class {
	return []Class{Unreachable, Unavailable, RateLimited, NotFound, Unauthorized, Forbidden, Invalid}
}

// Parse returns the class of that name, or an error that lists the names.
func Parse(name string) (Class, error) {
	names := make([]string, 0, len(All()))
	for _, c := range All() {
		if name == string(c) {
			return c, nil
		}
		names = append(names, string(c))
	}
	return None, fmt.Errorf("unknown failure class %q: allowed are %s", name, strings.Join(names, ", "))
}

// Security reports whether the class says something about the right to have
// the image or about its integrity. Tenants can never relax these.
func (c Class) Security() bool {
	return c == Unauthorized || c == Forbidden || c == Invalid
}

// Refuses reports whether a registry refused the caller's credentials, or them
// the image.
func (c Class) Refuses() bool { return c == Unauthorized || c == Forbidden }

// RegistryUnavailable reports whether the kubelet should show the failure as
// its own reason RegistryUnavailable.
func (c Class) RegistryUnavailable() bool {
	return c == Unreachable || c == Unavailable || c == RateLimited
}
