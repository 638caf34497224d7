// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Check is the part of a registry's answer that counts for the decision. The
// zero value means that none was asked.
type Check struct {
	// Digest is the registry's for the reference; "" when none answered.
	Digest digest.Digest
	// OriginFailed is why the registry of the name could not answer, where a mirror said the
	// digest in its place, or an authority its Class; None otherwise.
	OriginFailed failure.Class
	// Class is why the registry failed, in the check or in the pull after it.
	Class failure.Class
	// Elsewhere says that a pull of the request has asked a host of a layer's urls, and that the registry has answered. The
	// author of the manifest has chosen that host, and what it does, and when.
	Elsewhere bool
	// Overdue says that the pull that followed the answer has taken longer than the
	// request waits for it.
	Overdue bool
	// Cached is the registry's answer about the cached digest itself, which is
	// asked for after the tag turned out to be another one.
	Cached Confirmation
}

// byOrigin reports whether the registry of the name has answered itself, be it that it fails.
func (c *Check) byOrigin() bool {
	answered := c.Digest != "" || c.Class != failure.None && !c.Class.Silent()
	return answered && c.OriginFailed == failure.None
}

// Confirmation is a registry's answer to the question whether the caller may
// have a digest.
type Confirmation uint8

// The confirmations.
const (
	NotAsked     Confirmation = iota
	Confirmed                 // it said yes
	NotConfirmed              // it said no, or nothing that counts
	Unsaid                    // no registry can say: see cannotSay
)

// cannotSay are the failures in which no registry says whose an image is.
var cannotSay = failure.SetOf(failure.Unreachable, failure.Unavailable, failure.RateLimited, failure.NotFound)

// Do is what is to be done for a request.
type Do uint8

// The actions.
const (
	Ask       Do = iota // ask a registry for the digest of the reference
	AskCached           // ask it whether the caller may have the cached digest
	Reuse               // use the cached image
	Pull                // pull the digest that the registry has
	Reverify            // take the bytes of the cached image again, from an allowed host
	Fail
)

// Action is what is to be done, and why. It is data: nothing has happened yet.
type Action struct {
	Do     Do
	Kind   Kind   // of the outcome, if all goes well
	Reason Reason // of that outcome; empty for Ask and AskCached
	// Within is how long the request waits for a Pull, before it is decided again with
	// an overdue one. No bound where the cached image would not do.
	Within policy.Deadline
	// Used are the directives that took part, in the order of their use.
	Used []policy.Key
}

// waitsForNothing reports whether the request of a pull does no more than begin it.
func (a *Action) waitsForNothing() bool {
	longest, bounded := a.Within.Bound()
	return bounded && longest == 0
}

// Decide is the whole decision: a pure function of the directives in force, of
// the node's image, and of the registry's answer. It is asked first without an
// answer, and again with each one.
func Decide(d policy.Directives, local Local, check Check) Action {
	var used []policy.Key
	local.Grant = local.Grant.after(check)
	if local.ForeignSource {
		used = append(used, policy.KeyAllowedSources)
	}
	if local.Grant.Kind != "" && local.Grant.Kind != GrantProved {
		used = append(used, policy.KeyAccess)
	}
	if local.Grant.byHolder() && d.AccessIdentity != policy.Credentials {
		used = append(used, policy.KeyAccessIdentity)
	}
	var a Action
	switch {
	case check.Class != failure.None:
		a = afterFailure(d, local, check)
	case check.Digest != "":
		a = afterAnswer(d, local, check)
	default:
		a = beforeAsking(d, local)
	}
	a.Used = append(used, a.Used...)
	return a
}

// beforeAsking reuses what the policy reuses without a registry. Whose an open
// image is, a registry is asked first, unless none is to be asked.
func beforeAsking(d policy.Directives, local Local) Action {
	usable := local.Usable()
	reusable := usable && (local.Grant.Given() || local.Grant.Kind == GrantOpen && d.Policy == policy.Never)
	switch {
	case reusable && (local.ByDigest || d.Policy == policy.IfNotPresent || d.Policy == policy.Never):
		return present(local)
	case d.Policy == policy.Never && usable:
		return Action{Do: Fail, Kind: Failed, Reason: ReasonUnproved}
	case d.Policy == policy.Never:
		return Action{Do: Fail, Kind: Failed, Reason: ReasonAbsent}
	case reusable && d.MaxAge > 0 && local.fresh(d.MaxAge):
		return Action{Do: Reuse, Kind: Fresh, Reason: ReasonMaxAge, Used: []policy.Key{policy.KeyMaxAge}}
	case reusable && d.MaxAge > 0:
		return Action{Do: Ask, Used: []policy.Key{policy.KeyMaxAge}}
	}
	return Action{Do: Ask}
}

// present reuses an image of which only the caller's right to it could be in
// doubt.
func present(local Local) Action {
	if local.ByDigest {
		return Action{Do: Reuse, Kind: Present, Reason: ReasonDigest}
	}
	return Action{Do: Reuse, Kind: Present, Reason: ReasonPolicy}
}

// afterAnswer reuses what the registry confirmed, and pulls what it has else. The answer
// of a mirror in its place counts under every policy, as a fallback.
func afterAnswer(d policy.Directives, local Local, check Check) Action {
	same := local.ImageID != "" && local.target() == check.Digest
	mirrored := check.OriginFailed != failure.None
	switch {
	case same && local.ForeignSource && mirrored:
		return Action{Do: Reverify, Kind: Pulled, Reason: ReasonMirrorFallback}
	case same && local.ForeignSource:
		return Action{Do: Reverify, Kind: Pulled, Reason: ReasonSource}
	case same && keepsCached(d, local):
		return Action{Do: Reuse, Kind: Unchanged, Reason: ReasonProved}
	case same && mirrored:
		return Action{Do: Reuse, Kind: UsedCached, Reason: ReasonMirrorFallback}
	case same:
		return Action{Do: Reuse, Kind: Unchanged, Reason: ReasonSame}
	case keepsCached(d, local) && check.Cached == NotAsked:
		return Action{Do: AskCached}
	case keepsCached(d, local) && check.Cached == Confirmed:
		return Action{Do: Reuse, Kind: Unchanged, Reason: ReasonProved}
	case keepsCached(d, local) && check.Cached == Unsaid && local.Grant.Kind == GrantOpen && !check.Elsewhere:
		return present(local)
	}
	reason := ReasonAbsent
	switch {
	case mirrored:
		reason = ReasonMirrorFallback
	case local.Usable():
		reason = ReasonChanged
	case local.Broken:
		reason = ReasonIncomplete
	}
	return withDeadline(d, local, check, Action{Do: Pull, Kind: Pulled, Reason: reason})
}

// withDeadline bounds the wait for a pull in whose place the cached image would do, for
// this caller. Once it is overdue, that image is used, if it needs no more than it has:
// what is missing can only be made at the turn of the name, which the pull has.
func withDeadline(d policy.Directives, local Local, check Check, pull Action) Action {
	_, bounded := d.PullDeadline.Bound()
	if !bounded || d.Policy != policy.IfDigestChanged || !local.Usable() || local.ByDigest || !local.Grant.Given() {
		return pull
	}
	pull.Used = append(pull.Used, policy.KeyPullDeadline)
	if d.MaxStale > 0 {
		pull.Used = append(pull.Used, policy.KeyMaxStale)
	}
	switch {
	case isTooStale(d, local.Age):
		return pull
	case check.Overdue && !local.incomplete:
		return Action{Do: Reuse, Kind: UsedCached, Reason: ReasonPullDeadline, Used: pull.Used}
	}
	pull.Within = d.PullDeadline
	return pull
}

// keepsCached reports whether the policy is done with the cached image and only
// the caller's right to it is in doubt: where the tag has moved since does not
// matter then.
func keepsCached(d policy.Directives, local Local) bool {
	return local.Usable() && (local.ByDigest || d.Policy == policy.IfNotPresent)
}

// afterFailure uses the cached image where the policy says so for the class, and
// an open one where no registry can say whose it is. One whose bytes are elsewhere is no
// fallback. The error for a caller who
// may not have it is the same as without an image.
func afterFailure(d policy.Directives, local Local, check Check) Action {
	a := Action{Do: Fail, Kind: Failed, Reason: Reason(check.Class)}
	open := local.Grant.Kind == GrantOpen && cannotSay.Has(check.Class) && !check.Elsewhere && check.Cached != NotConfirmed
	if !local.Usable() || !local.Grant.Given() && !open {
		return a
	}
	if open && keepsCached(d, local) {
		return present(local)
	}
	if on, ok := policy.KeyOn(check.Class); ok && d.Policy == policy.IfDigestChanged {
		a.Used = append(a.Used, on)
	}
	if d.OnFailure(check.Class) != policy.UseCached || local.Remote {
		return a
	}
	if d.MaxStale > 0 {
		a.Used = append(a.Used, policy.KeyMaxStale)
	}
	if isTooStale(d, local.Age) {
		a.Reason = ReasonMaxStale
		return a
	}
	a.Do, a.Kind = Reuse, UsedCached
	return a
}

// isTooStale reports whether the last check of a cached image is too long ago
// for a fallback, or does not count.
func isTooStale(d policy.Directives, age Age) bool { return d.MaxStale > 0 && !age.Within(d.MaxStale) }

// fallbacks are the classes of failure, of the registry, after which the cached image is used in a request that has heard that.
func fallbacks(d policy.Directives, local Local, h heard) failure.Set {
	var classes []failure.Class
	for _, class := range failure.All() {
		c, cause := course{local: local, heard: h}, &resolver.Error{Class: class}
		c.hearFailure(cause)
		if c.decideFailed(d, cause).Do == Reuse {
			classes = append(classes, class)
		}
	}
	return failure.SetOf(classes...)
}
