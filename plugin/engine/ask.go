// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
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
	// repository is the one that was asked for, as the reference spells it.
	repository string
	// verified and proved are what it confirmed, and for which holders;
	// descriptor is what to pull.
	verified   store.Verified
	proved     []store.Fingerprint
	descriptor ocispec.Descriptor
	// proves reports whether what was served in the session is a proof for one of those, given the
	// manifest that runs of the image, which is runs ("" = nobody knows), and whether it renews
	// one that is there.
	proves func(f store.Fingerprint, runs digest.Digest, renews bool) bool
	runs   digest.Digest
	held   held // see Grant
	// shared says that the holder is the namespace of the caller, whose other pods may have given its proof.
	shared bool
	// shown reports whether a host was shown the caller's credentials for anything that it has
	// served in the session, be it in the pull, and nodeShown whether one was shown the node's.
	shown, nodeShown func() bool
	// originFailed is why the registry of the name could not say, where a mirror has
	// answered in its place: no check for ages, and a reason to warn. None otherwise.
	originFailed failure.Class
	// watch looks out for denials since the question, which is nil for one about something else
	// than the reference.
	watch    denialWatches
	question *question
	// attempts failed before the host that answered, which is verified.By. refusals are
	// those of the caller among them that count.
	attempts []resolver.Attempt
	refusals []store.Refusal
	// content is the source of the pull that follows; nil = none. What hosts refuse there
	// ends what they have proved by the answer.
	content resolver.Source
	// elapsed is the time that the check took, of the time it may take.
	elapsed time.Duration
}

// check is the part of the answer that counts for the decision, with what is known of
// the cached digest.
func (a *answer) check(cached Confirmation) Check {
	return Check{Digest: a.verified.Digest, OriginFailed: a.originFailed, Cached: cached}
}

// query is a check of one of the subject's references: the registry client is told
// the digest of the cached image, and for which failures that would do. A caller who
// has not proved that they may have the image, whatever the registry answers, has none, and the
// check begins as that of an absent image does: by how hosts are asked, and by what becomes of
// that, nobody learns that it is there.
func (t *task) query(reference string, local Local) resolver.Query {
	q := resolver.Query{
		Reference:   reference,
		Credentials: t.Credentials,
		Asker:       string(t.asker()) + " " + t.CredentialHost,
		Answered:    t.answered,
		Order:       orders[t.directives.ResolveFrom],
		Fallback:    fallbacks(t.directives.Directives, local, t.heard),
	}
	if local.Usable() && local.Grant.Given() {
		q.Known = local.target()
	}
	if t.readsManifests() {
		q.ReadManifest, q.Nested = true, nested(local)
	}
	if t.restricted() {
		q.Allow = t.directives.AllowedSources.Allow
	}
	if authority := t.directives.Authority; !authority.None() {
		q.Authority = authority.Has
	}
	return q
}

// orders are those in which hosts are asked.
var orders = map[policy.ResolveFrom]resolver.Order{
	policy.Mirrors:           resolver.ListedOrder,
	policy.OriginThenMirrors: resolver.OriginThenMirrors,
	policy.Origin:            resolver.OriginOnly,
}

// askUses are the directives that every check uses.
func (t *task) askUses() []policy.Key {
	keys := []policy.Key{policy.KeyResolveFrom, policy.KeyVerifyTimeout}
	if t.restricted() {
		keys = append(keys, policy.KeyAllowedSources)
	}
	if t.readsManifests() {
		keys = append(keys, policy.KeyCheckWith)
	}
	return keys
}

// checkTimeAfter is what is left of the time for checks. No time left is still a bound: 0
// would be none.
func (t *task) checkTimeAfter(spent time.Duration) time.Duration {
	return max(t.directives.VerifyTimeout-spent, time.Millisecond)
}

// ask asks for the digest of a session's reference. spent is the part of the
// time for checks that is used up. The error is a *resolver.Error, or that of
// the context when the caller went away; the elapsed time is set even then.
func (e *Engine) ask(ctx context.Context, t task, session resolver.Session, spent time.Duration) (answer, error) {
	asked := e.Now()
	r, err := session.Resolve(ctx, t.checkTimeAfter(spent))
	a := answer{repository: t.Repository, elapsed: e.Now().Sub(asked)}
	if err != nil {
		return a, err
	}
	at := e.Now().Round(0) // by the wall clock, as labels have it, which may be set before the answer is acted upon
	a.verified = store.Verified{Digest: r.Descriptor.Digest, At: at, By: r.Host, Origin: isOrigin(r.Host, session.Origin())}
	// A token for everybody is no credentials of the caller's.
	a.verified.Unshown = r.Anonymous || r.ByNode || !session.CredentialsShown()
	if t.readsManifests() {
		a.verified.Read = store.Reading{At: at, By: r.Host}
	}
	a.shared = t.directives.AccessIdentity == policy.Namespace
	a.proved, a.proves = t.provedBy(r.Anonymous), t.provesBy(session)
	a.shown, a.nodeShown = session.CredentialsShown, session.NodeShown
	a.descriptor, a.attempts, a.originFailed = r.Descriptor, r.Attempts, r.OriginFailed
	a.refusals = refusalsBefore(r)
	return a, nil
}

// saw takes in which manifest runs of the node's image, and whose it is, if the answer is about that.
func (a *answer) saw(l Local) {
	if l.target() != a.verified.Digest {
		return
	}
	if l.manifest != "" {
		a.runs = l.manifest
	}
	a.held = a.held.or(l.Grant.held).or(l.foreignGrant.held)
}

// check asks the registry for the digest of the reference, in what is left of the time.
func (e *Engine) check(ctx context.Context, t task, c course) (k checked) {
	k = checked{course: c, watch: e.watchDenials(t), question: e.newest.question(t.Name, t.insists)}
	if !k.inspected {
		local, err := e.inspect(ctx, t)
		if err != nil {
			k.course = k.ended(failed(ReasonInternal, err))
			return k
		}
		k.saw(local)
	} else if k.local.Usable() && t.directives.Mode != policy.Observe {
		// A proof of then may have ended before the watches began. What is observed goes by the node as
		// it was before containerd's own pull.
		if err := e.authorizeAgain(ctx, t, &k.course); err != nil {
			k.course = k.ended(failed(ReasonInternal, err))
			return k
		}
	}
	k.use(t.askUses()...)
	q := t.query(t.Name, k.local)
	enforced := !e.dry && t.directives.Mode != policy.Observe
	q.Absent = q.Known == "" && enforced
	if k.unread = q.Known == "" && k.local.Usable() && enforced; k.unread {
		q.Nested = resolver.Nested{}
	}
	session, err := e.Registry.Open(ctx, q)
	if err != nil {
		k.course = k.ended(notOpened(err))
		return k
	}
	waited, err := e.spend(ctx, t, &k.course, session)
	k.checkTime, k.waited = k.checkTime+waited, k.waited+waited
	if err != nil {
		k.session, k.err, k.unasked = session, err, true
		return k
	}
	k.watch.restart()
	k.question.ask()
	a, err := e.ask(ctx, t, session, k.checkTime)
	if revoking := e.revokeIfDenied(ctx, t, k.watch, a.refusals); revoking != nil {
		session.Close()
		k.course = k.ended(failed(ReasonInternal, revoking))
		return k
	}
	k.deny(a.refusals...)
	k.session, k.err = session, err
	if err != nil {
		k.checked(a)
		return k
	}
	k.question.answer()
	a.watch, a.question = k.watch, k.question
	k.answered(a)
	return k
}

// askCached asks a registry whether the caller may have the cached image, by
// its digest; nothing is downloaded but the manifest, for who has proved nothing. Only a
// caller who may have the tag gets here: the error of one who may not must be the same as
// without an image. So nothing that a registry refuses here is an error. The request stops
// where no host can be asked, or where the caller went away.
func (e *Engine) askCached(ctx context.Context, t task, c *course, k checked) (Confirmation, *end) {
	q := t.query(t.canonical(c.local.target()), c.local)
	q.Absent = c.unread // an index is read with it, in a request that is made anyway
	session, err := e.Registry.Open(ctx, q)
	if err != nil {
		stop := notOpened(err)
		return NotConfirmed, &stop
	}
	defer session.Close()
	// Denials since the question about the tag count: its answer may be acted on.
	a, err := e.ask(ctx, t, session, c.checkTime)
	if err == nil {
		c.hearAnswer(a)
	}
	confirmed := err == nil && a.verified.Digest == c.local.target() && !e.blocked(ctx, t, &c.local)
	var unread *end
	if confirmed && c.unread && !t.readsManifests() { // else the check has read it
		begun := e.Now()
		unread, err = e.readCached(ctx, t, c, a, session, t.checkTimeAfter(c.checkTime+a.elapsed), false)
		a.elapsed += e.Now().Sub(begun)
	}
	refusals := a.refusals
	cause, failedThere := errors.AsType[*resolver.Error](err)
	if failedThere {
		refusals = slices.Concat(refusals, refusalsAmong(cause.Attempts))
		c.hearFailure(cause)
	}
	if len(refusals) > 0 {
		k.session.Forget() // what was read before them is no word of the hosts any more
	}
	if err := e.revokeIfDenied(ctx, t, k.watch, refusals); err != nil { // the yes to the tag stays
		stop := failed(ReasonInternal, err)
		return NotConfirmed, &stop
	}
	c.deny(refusals...)
	switch {
	case ctx.Err() != nil:
		stop := failed(ReasonCanceled, ctx.Err())
		return NotConfirmed, &stop
	case unread != nil:
		return NotConfirmed, unread
	case confirmed && err == nil:
		a.watch = k.watch
		c.answered(a)
		return Confirmed, nil
	}
	c.checked(a)
	if failedThere && cannotSay.Has(cause.Class) {
		return Unsaid, nil
	}
	return NotConfirmed, nil
}
