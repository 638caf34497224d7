// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// Kind is how a request ended.
type Kind string

// The kinds of outcomes. They are values of a metric's label: keep them few.
const (
	Pulled     Kind = "Pulled"     // content was taken from a registry
	Unchanged  Kind = "Unchanged"  // a registry confirmed the digest that is here
	Fresh      Kind = "Fresh"      // an earlier check is younger than max_age
	Present    Kind = "Present"    // the policy, or a reference by digest, asks no registry, or none can say whose the image is
	UsedCached Kind = "UsedCached" // the check or the pull failed, or takes too long, and the policy lets the cached image do, or a mirror confirmed it
	Failed     Kind = "Failed"
	// NotObserved is for a pull under policy.Observe of which nobody knows what would
	// have been decided.
	NotObserved Kind = "NotObserved"
)

// Reason says why a request ended as it did. For UsedCached, and for failures
// of a registry, it is the failure class, unless a mirror has answered or a pull takes
// too long.
type Reason string

// The reasons besides the failure classes.
const (
	ReasonAbsent     Reason = "absent"      // Pulled: there was no image. Failed: policy Never
	ReasonIncomplete Reason = "incomplete"  // Pulled: the image that was here could not run
	ReasonChanged    Reason = "changed"     // Pulled: the digest differs
	ReasonSource     Reason = "source"      // Pulled: the image came from a host that is not allowed. Failed: no host is allowed, or others take part
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
	ReasonCanceled   Reason = "canceled"    // Failed: the caller went away. NotObserved: the daemon stopped
	ReasonPull       Reason = "pull"        // Failed: containerd could not pull, and no registry was at fault
	ReasonInternal   Reason = "internal"    // Failed: containerd's own state could not be read. NotObserved: a bug of pullwarden's
	ReasonBusy       Reason = "busy"        // NotObserved: too many pulls are observed at the same time
	ReasonSlow       Reason = "slow"        // NotObserved: the look at the node took too long, the pull did not wait for it
)

// PullEnd is how a pull that containerd made by itself ended, as logs show it.
type PullEnd string

// The ends of containerd's own pulls.
const (
	PullUnknown   PullEnd = "" // the daemon stopped before
	PullSucceeded PullEnd = "succeeded"
	PullFailed    PullEnd = "failed"
)

// ReasonMirrorFallback is for UsedCached and Pulled: a mirror said the digest in the place
// of the registry of the name, which could not be asked.
const ReasonMirrorFallback = Reason(store.MirrorFallback)

// ReasonPullDeadline is for UsedCached: the registry has another digest, and the pull of
// it goes on in the background.
const ReasonPullDeadline = Reason(store.PullDeadline)

// Outcome is all there is to know of a finished request. The log line and the
// metrics read nothing else.
type Outcome struct {
	Kind   Kind
	Reason Reason

	// Name is the normalised reference.
	Name string
	// Namespace is the pod's; empty when the request did not say.
	Namespace string
	// Pod is its name; empty when the request did not say.
	Pod string
	// Caller is the fingerprint of the credentials; empty when they cannot be told
	// apart from others.
	Caller Caller
	// Observed says that the outcome did not take effect, since the mode is
	// policy.Observe: it is what would have been decided. StockPull is how the pull
	// ended that containerd made instead.
	Observed  bool
	StockPull PullEnd
	// Background says that this is the end of a pull that no request waits for any
	// more. Those that asked for it have had outcomes of their own, UsedCached. Namespace,
	// Pod and Caller are of the first of them.
	Background bool
	// Directives are those that applied; where a hint is bad, those without
	// hints.
	Directives policy.Effective
	// NearHints are annotations that are no hints, but surely meant to be: fit for a
	// log line.
	NearHints []string
	// Used are the directives that took part, in the order of their use.
	Used []policy.Key
	// Coalesced says that the request shared the check, and the pull, of an
	// equal one.
	Coalesced bool
	// Class is why the registry failed; failure.None when it did not.
	Class failure.Class
	// Grant says whether and why the caller may reuse the cached image; empty
	// where there is none.
	Grant GrantKind
	// Host confirmed the digest; empty when none was asked or none answered.
	Host string
	// Attempts are the hosts that failed.
	Attempts []resolver.Attempt
	// ImageID is CRI's, for every kind but Failed.
	ImageID string
	// Before is the digest that the record pointed at before. Digest is that
	// of the returned image, or else the registry's.
	Before, Digest digest.Digest
	// Awaited is the registry's, which is pulled in the background, where the cached
	// image is used meanwhile; else empty.
	Awaited digest.Digest
	// Source is where the returned image came from, as its label pull-source has it;
	// empty when nobody knows.
	Source string
	// Age is the time since the last check of the reused image.
	Age Age
	// CheckTime is how long the registry took to answer or to fail; zero when
	// it was not asked.
	CheckTime time.Duration
	// Elapsed is the whole request.
	Elapsed time.Duration
	// Err is the error that the caller gets, for Failed.
	Err error
}

// DecidedBy lists the directives that took part, each with its value and the level
// that set it.
func (o *Outcome) DecidedBy() string {
	parts := make([]string, 0, len(o.Used))
	for _, key := range o.Used {
		parts = append(parts, o.Directives.Describe(key))
	}
	return strings.Join(parts, ", ")
}

// Under describes the directive that decided.
func (o *Outcome) Under() string { return o.Directives.Describe(deciding(o.Reason, o.Used)) }

// course is how a request went: the values of its steps, of which its Outcome
// is made.
type course struct {
	heard
	used      []policy.Key
	local     Local         // as it was last seen
	inspected bool          // local was seen
	mustAsk   bool          // a registry, whatever the budget: the cached image does not do
	unread    bool          // the manifest was left to the pull: see isUnread
	before    digest.Digest // the record's target, as it was last seen
	answer    answer        // the last one of a registry
	cached    Confirmation  // what it said of that image, by its digest
	attempts  []resolver.Attempt
	class     failure.Class   // of the last failure of a registry
	refusals  []store.Refusal // of the caller, by hosts in that failure
	checkTime time.Duration   // of what checks may take
	waited    time.Duration   // of it, for the budget of checks
	overdue   time.Time       // when its wait for a pull has to end, which began before it began anew
	end       end
	within    policy.Deadline // for how long a foreseen pull would be waited for
}

// end is how a request ended.
type end struct {
	kind    Kind
	reason  Reason
	imageID string
	digest  digest.Digest
	source  string
	cause   error // for Failed
}

func failed(reason Reason, cause error) end {
	return end{kind: Failed, reason: reason, cause: cause}
}

// over reports whether the request has ended.
func (c *course) over() bool { return c.end.kind != "" }

// mayServe reports whether the request has ended with an image, or may end so.
func (c *course) mayServe() bool { return c.end.kind != Failed && c.end.kind != NotObserved }

func (c course) ended(e end) course {
	c.end = e
	return c
}

// use notes that directives took part in the decision.
func (c *course) use(keys ...policy.Key) {
	for _, k := range keys {
		if !slices.Contains(c.used, k) {
			c.used = append(slices.Clip(c.used), k)
		}
	}
}

// saw takes in the node's image. What a registry said of another one is none of it, and proofs of one that was removed
// have ended, also where the same was pulled again.
func (c *course) saw(l Local) {
	if l.target() != c.local.target() {
		c.cached = NotAsked
	}
	if !l.isOf(c.local.Record) {
		c.answer.held = held{}
	}
	c.local, c.inspected = l, true
	c.answer.saw(l)
	if d := l.target(); d != "" {
		c.before = d
	}
}

// checked adds the time of a check, whatever came of it.
func (c *course) checked(a answer) { c.checkTime += a.elapsed }

// answered takes in a registry's answer.
func (c *course) answered(a answer) {
	c.checked(a)
	a.saw(c.local)
	c.hearAnswer(a)
	c.answer, c.attempts = a, a.attempts
}

// failed takes in a registry's failure.
func (c *course) failed(cause *resolver.Error) {
	c.hearFailure(cause)
	c.class, c.refusals = cause.Class, refusalsAmong(cause.Attempts)
	if slices.ContainsFunc(cause.Attempts, func(a resolver.Attempt) bool { return a.Authority }) {
		c.use(policy.KeyAuthority)
	}
	c.attempts = slices.Concat(c.attempts, cause.Attempts)
}

// newOutcome makes the outcome of a request of its course.
func newOutcome(ctx context.Context, t task, c course) Outcome {
	if t.pins() && c.mayServe() {
		c.use(policy.KeyPin)
	}
	o := Outcome{
		Observed:   t.directives.Mode == policy.Observe,
		Kind:       c.end.kind,
		Reason:     c.end.reason,
		Name:       t.Name,
		Namespace:  t.Namespace,
		Pod:        t.Pod,
		Caller:     t.Caller,
		Directives: t.directives,
		NearHints:  t.directives.NearHints(t.Annotations),
		Used:       c.used,
		Class:      c.class,
		Grant:      c.local.Grant.after(c.answer.check(c.cached)).Kind,
		Host:       c.answer.verified.By,
		Attempts:   c.attempts,
		ImageID:    c.end.imageID,
		Before:     c.before,
		Digest:     c.end.digest,
		Source:     c.end.source,
		CheckTime:  c.checkTime - c.waited,
	}
	if o.Digest == "" {
		o.Digest = c.answer.verified.Digest
	}
	if o.Reason == ReasonPullDeadline {
		o.Awaited = c.answer.verified.Digest
	}
	if o.ImageID != "" && o.Kind != Pulled {
		o.Age = c.local.Age
	}
	if o.Kind == Failed {
		o.Err = newError(t, c)
		if err := ctx.Err(); err != nil {
			o.Reason, o.Err = ReasonCanceled, err
		}
	}
	return o
}
