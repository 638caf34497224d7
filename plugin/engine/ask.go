// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// Registry opens sessions with the hosts of a reference.
type Registry interface {
	// Open reads the configuration of the hosts for a reference; nothing is
	// asked yet. The caller closes the session, after the pull that follows
	// the check. The error is a *resolver.SourcesError where no host is
	// allowed, else one of the configuration.
	Open(ctx context.Context, q resolver.Query) (resolver.Session, error)
	// Hosts lists the hosts for a reference, and asks none. The timeout is that of
	// a check. The error is one of the configuration.
	Hosts(ctx context.Context, q resolver.Query, timeout time.Duration) ([]resolver.HostState, error)
}

// answer is a registry's answer to one check.
type answer struct {
	// verified and proved are what it confirmed, and to whom; descriptor is
	// what to pull.
	verified   store.Verified
	proved     []store.Fingerprint
	descriptor ocispec.Descriptor
	// byNode says that the node itself may have been let in, and not the caller.
	byNode bool
	// watch looks out for denials since the question.
	watch denialWatches
	// attempts failed before the host that answered, which is verified.By.
	attempts []resolver.Attempt
	// elapsed is the time that the check took, of the time it may take.
	elapsed time.Duration
}

// query is a check of one of the subject's references: the registry is told
// the digest of the cached image, and for which failures that would do.
func (t *task) query(reference string, local Local) resolver.Query {
	q := resolver.Query{
		Reference:   reference,
		Credentials: t.Credentials,
		OriginOnly:  t.directives.ResolveFrom == policy.Origin,
		Fallback:    fallbacks(t.directives.Directives, local),
	}
	if local.Usable() {
		q.Known = local.target()
	}
	if t.restricted() {
		q.Allow = t.directives.AllowedSources.Allow
	}
	return q
}

// askUses are the directives that every check uses.
func (t *task) askUses() []policy.Key {
	keys := []policy.Key{policy.KeyResolveFrom, policy.KeyVerifyTimeout}
	if t.restricted() {
		keys = append(keys, policy.KeyAllowedSources)
	}
	return keys
}

// ask asks for the digest of a session's reference. spent is the part of the
// time for checks that is used up. The error is a *resolver.Error, or that of
// the context when the caller went away; the elapsed time is set even then.
func (e *Engine) ask(ctx context.Context, t task, session resolver.Session, spent time.Duration) (answer, error) {
	asked := e.Now()
	// No time left is still a bound: 0 would be none.
	r, err := session.Resolve(ctx, max(t.directives.VerifyTimeout-spent, time.Millisecond))
	a := answer{elapsed: e.Now().Sub(asked)}
	if err != nil {
		return a, err
	}
	a.verified = store.Verified{Digest: r.Descriptor.Digest, At: e.Now(), By: r.Host}
	a.byNode = r.ByNode || !r.Anonymous && t.asNode(r.Host)
	a.proved = t.provedBy(r.Anonymous, a.byNode)
	a.descriptor, a.attempts = r.Descriptor, r.Attempts
	return a, nil
}

// stillProved are the callers that have proved access by the answer, without those
// that were refused since.
func (a *answer) stillProved() []store.Fingerprint {
	proof := store.Proof{At: a.verified.At, By: a.verified.By}
	return slices.DeleteFunc(slices.Clone(a.proved), func(f store.Fingerprint) bool { return a.watch.ended(f, proof) })
}

// proofs are those of the callers that have still proved access.
func (a *answer) proofs() map[store.Fingerprint]store.Proof {
	proofs := map[store.Fingerprint]store.Proof{}
	for _, f := range a.stillProved() {
		proofs[f] = store.Proof{At: a.verified.At, By: a.verified.By}
	}
	return proofs
}

// asNode reports whether a host gets credentials of the node's configuration for a
// caller that has none: those of CRI's deprecated registry.configs.
func (t *task) asNode(host string) bool {
	if t.Caller != store.Anonymous || t.Credentials == nil {
		return false
	}
	username, secret, err := t.Credentials(host)
	return err != nil || username != "" || secret != ""
}

// checked is a request whose check has been answered, or has failed. Requests
// that come later do not share it. It must be acted upon, which ends it.
type checked struct {
	course
	// session is that of the check; nil when no host could be asked: the course
	// has ended then.
	session resolver.Session
	// watch looks out for denials since the check began.
	watch denialWatches
	// err is why the check failed.
	err error
}

// check asks the registry for the digest of the reference.
func (e *Engine) check(ctx context.Context, t task, c course) (k checked) {
	watch := e.denials.watchAll(t.denialKey().repository, t.provers()...)
	if !c.inspected {
		local, err := e.inspect(ctx, t)
		if err != nil {
			return checked{course: c.ended(failed(ReasonInternal, err)), watch: watch}
		}
		c.saw(local)
	}
	c.use(t.askUses()...)
	session, err := e.Registry.Open(ctx, t.query(t.Name, c.local))
	if err != nil {
		return checked{course: c.ended(notOpened(err)), watch: watch}
	}
	watch.restart()
	a, err := e.ask(ctx, t, session, 0)
	if err != nil {
		c.checked(a)
	} else {
		a.watch = watch
		c.answered(a)
	}
	return checked{course: c, session: session, watch: watch, err: err}
}

// askCached asks a registry whether the caller may have the cached image, by
// its digest; nothing is downloaded. Only a caller who may have the tag gets
// here: the error of one who may not must be the same as without an image. The
// request stops where no host can be asked, or where the caller went away.
func (e *Engine) askCached(ctx context.Context, t task, c *course, watch denialWatches) (Confirmation, *end) {
	session, err := e.Registry.Open(ctx, t.query(t.canonical(c.local.target()), c.local))
	if err != nil {
		stop := notOpened(err)
		return NotConfirmed, &stop
	}
	defer session.Close()
	// Denials since the question about the tag count: its answer may be acted on.
	a, err := e.ask(ctx, t, session, c.checkTime)
	cause, failedThere := errors.AsType[*resolver.Error](err)
	if failedThere {
		refusals := refusalsOf(cause)
		watch[0].deny(refusals...) // which leaves the yes to the tag as it is
		if len(refusals) > 0 {
			if err := e.revoke(ctx, t, t.Caller, refusals); err != nil {
				stop := failed(ReasonInternal, err)
				return NotConfirmed, &stop
			}
		}
	}
	if ctx.Err() != nil {
		stop := failed(ReasonCanceled, ctx.Err())
		return NotConfirmed, &stop
	}
	if failedThere && cannotSay.Has(cause.Class) {
		c.checked(a)
		return Unsaid, nil
	}
	if err != nil || a.verified.Digest != c.local.target() {
		c.checked(a)
		return NotConfirmed, nil
	}
	a.watch = watch
	c.answered(a)
	return Confirmed, nil
}

// notOpened ends a request whose hosts cannot be asked.
func notOpened(err error) end {
	var sources *resolver.SourcesError
	if errors.As(err, &sources) {
		return failed(ReasonSource, err)
	}
	return failed(ReasonHosts, err)
}
