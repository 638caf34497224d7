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

// classes is all there is to say of each class but how it is found out
// (resolver/fault), in the order in which the documentation shows them.
var classes = [...]struct {
	class    Class
	describe string
	// security: it says something about the right to have the image or about
	// its integrity.
	security bool
}{
	{class: Unreachable, describe: "no answer: name not resolved, refused, reset, timed out"},
	{class: Unavailable, describe: "5xx, from the registry or its token server"},
	{class: RateLimited, describe: "429"},
	{class: NotFound, describe: "404, 410"},
	{class: Unauthorized, describe: "401 after a retry with a fresh token; credentials refused", security: true},
	{class: Forbidden, describe: "403", security: true},
	{class: Invalid, describe: "an answer that breaks the protocol or a promise", security: true},
}

// Count is how many classes there are.
const Count = len(classes)

// All lists the classes in the order in which the documentation shows them.
func All() []Class {
	all := make([]Class, Count)
	for i := range classes {
		all[i] = classes[i].class
	}
	return all
}

// index is the place of the class in the list of all, -1 for None and for text
// that names no class.
func (c Class) index() int {
	for i := range classes {
		if classes[i].class == c {
			return i
		}
	}
	return -1
}

// Description says in a few words which failures are of the class; "" for None.
func (c Class) Description() string {
	if i := c.index(); i >= 0 {
		return classes[i].describe
	}
	return ""
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
	i := c.index()
	return i >= 0 && classes[i].security
}

// Refuses reports whether a registry refused the caller's credentials, or them
// the image.
func (c Class) Refuses() bool { return c == Unauthorized || c == Forbidden }

// Silent reports whether the class is no answer of the registry's own, so that a mirror may
// answer in its place.
func (c Class) Silent() bool { return c == Unreachable || c == Unavailable }

// RegistryUnavailable reports whether the kubelet should show the failure as
// its own reason RegistryUnavailable.
func (c Class) RegistryUnavailable() bool {
	return c == Unreachable || c == Unavailable || c == RateLimited
}
