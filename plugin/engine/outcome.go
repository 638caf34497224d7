// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Result is how a request ended.
type Result string

// The results. They are values of a metric's label: keep them few.
const (
	Pulled     Result = "Pulled"     // content was taken from a registry
	Unchanged  Result = "Unchanged"  // a registry confirmed the digest that is here
	Fresh      Result = "Fresh"      // an earlier check is younger than max_age
	Present    Result = "Present"    // the policy, or a reference by digest, asks no registry
	UsedCached Result = "UsedCached" // the check or the pull failed, and the policy lets the cached image do
	Failed     Result = "Failed"
)

// Reason says why a request ended as it did. For UsedCached, and for failures
// of a registry, it is the failure class.
type Reason string

// The reasons besides the failure classes.
const (
	ReasonAbsent     Reason = "absent"      // Pulled: there was no image. Failed: policy Never
	ReasonIncomplete Reason = "incomplete"  // Pulled: the image that was here could not run
	ReasonChanged    Reason = "changed"     // Pulled: the digest differs
	ReasonSource     Reason = "source"      // Pulled: the image came from a host that is not allowed. Failed: no host is allowed
	ReasonSame       Reason = "same_digest" // Unchanged
	ReasonProved     Reason = "proved"      // Unchanged: the caller proved that it may have the cached image
	ReasonMaxAge     Reason = "max_age"     // Fresh
	ReasonPolicy     Reason = "policy"      // Present: the policy reuses what is there
	ReasonDigest     Reason = "digest"      // Present: a digest cannot change
	ReasonUnproved   Reason = "unproved"    // Failed: policy Never, and the caller has not proved that it may have the image
	ReasonHint       Reason = "bad_hint"    // Failed: a hint is unknown, malformed or not allowed
	ReasonHosts      Reason = "bad_hosts"   // Failed: hosts.toml does not parse
	ReasonVerifier   Reason = "verifier"    // Failed: an image verifier refused the cached image
	ReasonMaxStale   Reason = "max_stale"   // Failed: the last check of the cached image is too long ago
	ReasonCanceled   Reason = "canceled"    // Failed: the caller went away
	ReasonPull       Reason = "pull"        // Failed: containerd could not pull, and no registry was at fault
	ReasonInternal   Reason = "internal"    // Failed: containerd's own state could not be read
)

// Access says what let the caller reuse a cached image, or that nothing did.
type Access string

// The values of Access; empty when there was no cached image.
const (
	AccessOpen     Access = "open"     // no registry was ever asked about the image
	AccessAny      Access = "any"      // the rule lets everybody
	AccessProved   Access = "proved"   // the caller, or anybody, has proved it
	AccessUnproved Access = "unproved" // the caller has to ask a registry
)

// Outcome is all there is to know of a finished request. The log line and the
// metrics read nothing else.
type Outcome struct {
	Result Result
	Reason Reason

	// Name is the normalised reference.
	Name string
	// Namespace is the pod's; empty when the request did not say.
	Namespace string
	// Decision is what applied; what would have without hints when a hint is
	// bad.
	Decision policy.Decision
	// Parts are the directives that took part, in the order of their use.
	Parts []policy.Key
	// Coalesced says that the request shared the check, and the pull, of an
	// equal one.
	Coalesced bool
	// Class is why the registry failed; failure.None when it did not.
	Class failure.Class
	// Access is what let the caller reuse the cached image.
	Access Access
	// Host confirmed the digest; empty when none was asked or none answered.
	Host string
	// Attempts are the hosts that failed.
	Attempts []resolver.Attempt
	// ImageID is CRI's, for every result but Failed.
	ImageID string
	// Before and Digest are what the record pointed at before, and what the
	// image that was returned, or the registry, has.
	Before, Digest digest.Digest
	// Age is the time since the last check of a cached image; negative when it
	// was never checked.
	Age time.Duration
	// Checked is how long the registry took to answer or to fail; zero when it
	// was not asked.
	Checked time.Duration
	// Elapsed is the whole request.
	Elapsed time.Duration
	// Err is the error that the caller gets, for Failed.
	Err error
}

// use notes that directives took part in the decision.
func (o *Outcome) use(parts ...policy.Key) {
	for _, p := range parts {
		if !slices.Contains(o.Parts, p) {
			o.Parts = append(o.Parts, p)
		}
	}
}
