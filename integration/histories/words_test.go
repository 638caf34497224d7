// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"fmt"
	"iter"
)

const (
	names    = 3
	repos    = 2
	contents = 5 // with 0, which is none
)

// The names: two tags of one repository, and another repository.
var (
	nameOf = [names]string{"app:1", "app:2", "lib:1"}
	repoOf = [names]int{0, 0, 1}
	repo   = [repos]string{"app", "lib"}
)

// Caller is whose credentials a pull has.
type Caller int

// The callers. Wrong has the user name of Alice and another password; the
// proof of Nobody counts for everybody.
const (
	Alice Caller = iota
	Bob
	Nobody
	Wrong
)

const callers = 4

func (c Caller) String() string {
	return [callers]string{"alice", "bob", "nobody", "a wrong password"}[c]
}

// Policy is what a hint or a rule says.
type Policy int

// The policies. ByRule is no hint.
const (
	ByRule Policy = iota
	Always
	IfDigestChanged
	IfNotPresent
	Never
)

func (p Policy) String() string {
	return [...]string{"the rule's policy", "Always", "IfDigestChanged", "IfNotPresent", "Never"}[p]
}

// Class is a failure class.
type Class int

// The failure classes.
const (
	None Class = iota
	Unreachable
	Unavailable
	RateLimited
	NotFound
	Unauthorized
	Forbidden
	Invalid
	MirrorFallback // no failure of the mirror, which has answered
	numClasses
)

var classNames = [numClasses]string{"", "unreachable", "unavailable", "rate_limited", "not_found", "unauthorized", "forbidden", "invalid", "mirror_fallback"}

func (c Class) String() string {
	if c < 0 {
		return "no class"
	}
	return classNames[c]
}

// security classes fail by default.
func (c Class) security() bool { return c == Unauthorized || c == Forbidden || c == Invalid }

// cannotSay are the classes in which no registry says whose an image is.
func (c Class) cannotSay() bool {
	return c == Unreachable || c == Unavailable || c == RateLimited || c == NotFound
}

// Classes is a set of failure classes.
type Classes uint16

func (s *Classes) add(c Class) { *s |= 1 << c }

func (s Classes) each() iter.Seq[Class] {
	return func(yield func(Class) bool) {
		for c := range numClasses {
			if s&(1<<c) != 0 && !yield(c) {
				return
			}
		}
	}
}

// Outcome is how a request for an image ended.
type Outcome string

// The outcomes.
const (
	Pulled     Outcome = "Pulled"
	Unchanged  Outcome = "Unchanged"
	Fresh      Outcome = "Fresh"
	Present    Outcome = "Present"
	UsedCached Outcome = "UsedCached"
	Failed     Outcome = "Failed"
)

// Saw is what there was to see of a pull. The class is that of a failure of the
// registry, or MirrorFallback.
type Saw struct {
	Outcome Outcome
	Class   Class
}

func (s Saw) String() string {
	if s.Class == None {
		return string(s.Outcome)
	}
	return fmt.Sprintf("%s (%v)", s.Outcome, s.Class)
}

// Trouble is what is wrong with the registry, for everybody.
type Trouble int

// The troubles.
const (
	Up        Trouble = iota
	Refuses           // connections are refused
	Swallows          // connections time out
	Status503         // to all requests
	Status429         // to all requests
	Forbids           // 403 to requests for manifests
	Portal            // a web page instead of manifests
	Lies              // tags have a digest that no content has
	NoBlobs           // 503 to requests for blobs
	CutBlobs          // connections are reset in the middle of blobs
	numTroubles
)

func (t Trouble) String() string {
	return [...]string{"up", "refusing connections", "swallowing packets", "answering 503", "answering 429",
		"answering 403", "a web page", "lying about digests", "answering 503 for blobs", "cutting blobs"}[t]
}

// class is that of a request which meets the trouble.
func (t Trouble) class() Class {
	return [numTroubles]Class{Refuses: Unreachable, Swallows: Unreachable, Status503: Unavailable,
		Status429: RateLimited, Forbids: Forbidden, Portal: Invalid, Lies: Invalid, NoBlobs: Unavailable, CutBlobs: Unreachable}[t]
}

// check is the class that a check ends with.
func (t Trouble) check() Class {
	if t == Lies || t == NoBlobs || t == CutBlobs {
		return None // they show in downloads
	}
	return t.class()
}

func (t Trouble) manifestsOnly() bool { return t == Forbids || t == Portal }

// Access is the directive.
type Access int

// The values of access.
const (
	Verified Access = iota
	Strict
	AnyCaller
)

func (a Access) String() string { return [...]string{"Verified", "Strict", "Any"}[a] }

// From is the directive resolve_from.
type From int

// The values of resolve_from.
const (
	FromMirrors From = iota
	FromOriginThenMirrors
	FromOrigin
)

func (f From) String() string { return [...]string{"Mirrors", "OriginThenMirrors", "Origin"}[f] }

// Rule is the rule for all images.
type Rule struct {
	Policy Policy
	// Lenient sets UseCached for the security classes.
	Lenient bool
	From    From
	// Authority makes the mirror one.
	Authority bool
	Access    Access
	// ByNamespace sets access_identity = "Namespace".
	ByNamespace bool
	Fresh       Freshness
}

// holder is whose proof counts for a pull.
func (r Rule) holder(p Pull) Holder {
	if r.ByNamespace {
		return p.Namespace.holder()
	}
	return p.Caller.holder()
}

func (r Rule) String() string {
	text := fmt.Sprintf("%v, access %v", r.Policy, r.Access)
	if r.Lenient {
		text += ", UseCached for every class"
	}
	text += ", resolved from " + r.From.String()
	if r.Authority {
		text += ", the mirror is an authority"
	}
	if r.ByNamespace {
		text += ", proofs of namespaces"
	}
	if r.Fresh != (Freshness{}) {
		text += ", " + r.Fresh.String()
	}
	return text
}
