// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// Whatever a session's source serves is tracked.
var _ transfer.SourceReporter = resolver.Source(nil)

// The phases in which a registry can fail.
const (
	checking = "check"
	pulling  = "pull"
)

// pull pulls the digest that the registry answered, for that reason. Pulls of one name take
// turns: containerd writes the target of a record more than once in a pull, and
// two pulls of different digests in between would leave labels on the wrong
// one.
func (e *Engine) pull(ctx context.Context, t task, c course, reason Reason, session resolver.Session) course {
	unlock, err := e.turns.Lock(ctx, t.Name)
	if err != nil {
		return c.ended(failed(ReasonCanceled, err))
	}
	defer unlock()
	// While this request waited for its turn, another may have pulled the same.
	local, err := e.inspect(ctx, t)
	if err != nil {
		return c.ended(failed(ReasonInternal, err))
	}
	c.saw(local)
	a := c.answer
	source := session.Source(a.descriptor)
	action := Decide(t.directives.Directives, local, Check{Digest: a.verified.Digest, Cached: NotConfirmed})
	c.use(action.Used...)
	switch action.Do {
	case Reuse:
		return e.unchanged(ctx, t, c, action, hasTurn, t.names(a.verified.Digest)...)
	case Reverify:
		return e.reverify(ctx, t, c, action, source)
	}
	plan := &transfer.Plan{Reference: t.Name, Source: source, Verify: e.verifyPossession(t, source)}
	plan.State = func(target digest.Digest, before store.State) store.State {
		return e.pulledState(a, target, before)
	}
	id, applied, err := t.Runtime.Pull(ctx, plan)
	if err != nil {
		return e.pullFailed(ctx, t, c, source, err)
	}
	pulled := end{kind: Pulled, reason: reason, imageID: id}
	return e.recordPull(ctx, t, c, source, pulled, applied)
}

// pullFailed ends a request whose pull, or reverification, failed.
func (e *Engine) pullFailed(ctx context.Context, t task, c course, source resolver.Source, err error) course {
	cause := source.Failure(err)
	if cause == nil || ctx.Err() != nil && !cause.Class.Refuses() {
		return c.ended(failed(ReasonPull, err))
	}
	return e.fallBack(ctx, t, c, pulling, cause)
}

// verifyPossession refuses an image that the registry of the name does not have
// itself. A registry can answer with any digest, and nobody asks it for content
// that is on the node: someone who knows the digest of another's private image
// could have it by the name of a registry of their own.
func (e *Engine) verifyPossession(t task, source resolver.Source) func(context.Context, ocispec.Descriptor) error {
	return func(ctx context.Context, target ocispec.Descriptor) error {
		known, err := e.Records.Get(ctx, t.canonical(target.Digest))
		if err == nil && known.Target.Digest == target.Digest {
			return nil // it came by this repository before
		}
		fetcher, err := source.Fetcher(ctx, t.Name)
		if err != nil {
			return err
		}
		return e.Content.VerifyPossession(ctx, target, fetcher, source.Delivered)
	}
}

// recordPull keeps what a pull found out on the records that the pull itself
// did not write it on.
func (e *Engine) recordPull(ctx context.Context, t task, c course, source resolver.Source, pulled end, applied bool) course {
	a := c.answer
	pulled.digest = a.verified.Digest
	record, err := e.Records.Get(ctx, t.Name)
	if err != nil {
		prefixlog.G(ctx).WithError(err).Warnf("nothing is recorded of the pull of %q", t.Name)
		return c.ended(pulled)
	}
	target, before := record.Target.Digest, record.State
	switch {
	case applied && target != a.verified.Digest:
		return c.ended(pulled) // the record has been moved since
	case !applied:
		// CRI pulled by itself and resolved the tag again. A registry gave the
		// result to this caller, and perhaps to nobody else.
		before = store.State{}
		if target != a.verified.Digest {
			a = answer{verified: store.Verified{Digest: target, At: e.Now()}, proved: t.provedBy(false, a.byNode), byNode: a.byNode}
		}
	case t.foreign(record.State):
		// Some of the content was on the node, and came by another rule.
		if err := e.verifyContent(ctx, t, source, a); err != nil {
			return e.pullFailed(ctx, t, c, source, err)
		}
		before = withSources(before, source.Served())
	}
	pulled.digest = target
	state := e.pulledState(a, target, before)
	if !before.PulledAt.IsZero() {
		state.PulledAt = before.PulledAt // the same pull
	}
	e.Marks.MarkPulled(ctx, target, state, t.names(target)...)
	return c.ended(pulled)
}

// pulledState is what a record says after a pull of target. Sources stay those
// of before: only plugin/transfer knows which content was really fetched.
func (e *Engine) pulledState(a answer, target digest.Digest, before store.State) store.State {
	s := store.State{PulledAt: e.Now(), PullSource: before.PullSource, ContentSources: before.ContentSources}
	if target != a.verified.Digest {
		return s
	}
	s.Verified, s.Restricted = a.verified, true
	s.Access = map[store.Fingerprint]time.Time{}
	for _, f := range a.proved {
		s.Access[f] = a.verified.At
	}
	return s
}

// withSources returns the state with the sources that served a whole image.
func withSources(s store.State, served provenance.Provenance) store.State {
	if served.Reference == "" {
		return s
	}
	s.PullSource, s.ContentSources = served.Reference, nil
	if len(served.Hosts) > 1 {
		s.ContentSources = served.Hosts
	}
	return s
}

// reverify takes the bytes of an image that is here once more, from a source
// that has allowed hosts only, and compares them.
func (e *Engine) reverify(ctx context.Context, t task, c course, action Action, source resolver.Source) course {
	a := c.answer
	if err := e.verifyContent(ctx, t, source, a); err != nil {
		return e.pullFailed(ctx, t, c, source, err)
	}
	c.local.ForeignSource = false
	if c = c.ended(e.reuse(ctx, t, c.local, action, hasTurn)); c.end.kind == Failed {
		return c
	}
	target := a.verified.Digest
	state := e.pulledState(a, target, withSources(store.State{}, source.Served()))
	e.Marks.MarkPulled(ctx, target, state, t.names(target)...)
	return c
}

// verifyContent takes every byte of an image that is here from the source.
func (e *Engine) verifyContent(ctx context.Context, t task, source resolver.Source, a answer) error {
	fetcher, err := source.Fetcher(ctx, t.Name)
	if err != nil {
		return err
	}
	return e.Content.VerifyContent(ctx, a.descriptor, fetcher)
}
