// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// Marks write what requests found out to image records. They return at once,
// and hold for records that point at target. A request makes one of them at
// most: MarkVerified after a check that confirmed the cached image, MarkStale
// after a failure that the cached image was used for, MarkPulled after a pull.
type Marks interface {
	MarkVerified(ctx context.Context, target digest.Digest, v store.Verified, proved []store.Fingerprint, names ...string)
	MarkStale(ctx context.Context, target digest.Digest, s store.Stale, names ...string)
	MarkPulled(ctx context.Context, target digest.Digest, s store.State, names ...string)
}

var errNever = errors.New("there is no image that these credentials may have on the node, and the policy Never asks no registry")

// apply carries out a decision that no registry was asked for.
func (e *Engine) apply(ctx context.Context, t task, c course, action Action) end {
	if action.Do == Fail {
		return failed(action.Reason, errNever)
	}
	return e.reuse(ctx, t, c.local, action, takeTurn)
}

// unchanged reuses the image that the registry confirmed for these names.
func (e *Engine) unchanged(ctx context.Context, t task, c course, action Action, turn turn, names ...string) course {
	c = c.ended(e.reuse(ctx, t, c.local, action, turn))
	if a := c.answer; c.end.kind != Failed {
		e.Marks.MarkVerified(ctx, a.verified.Digest, a.verified, a.stillProved(), names...)
	}
	return c
}

// turn says whether the turn of a name's pulls has to be taken.
type turn bool

const (
	takeTurn turn = false
	hasTurn  turn = true
)

// reuse ends a request with the cached image, if the image verifiers of the
// node agree: they are asked before each pull, and reuse is no way around them.
func (e *Engine) reuse(ctx context.Context, t task, local Local, action Action, turn turn) end {
	target := local.Record.Target
	if err := e.verifyCached(ctx, t, target); err != nil {
		return failed(ReasonVerifier, err)
	}
	if err := e.complete(ctx, t, local, turn); err != nil {
		return failed(ReasonCanceled, err)
	}
	if local.incomplete && !t.foreign(local.Record.State) {
		if err := e.stillAllowed(ctx, t); err != nil {
			return failed(ReasonSource, err)
		}
	}
	if action.Kind != Unchanged && local.Grant.By != "" {
		e.Proofs.Used(ctx, local.Grant.By, e.Now(), t.names(target.Digest)...)
	}
	return reused(action, local)
}

// reused ends a request with the cached image.
func reused(action Action, local Local) end {
	return end{kind: action.Kind, reason: action.Reason, imageID: local.ImageID, digest: local.target()}
}

// verifyCached asks the image verifiers of the node about the cached image; nil means
// that they agree, or that there are none.
func (e *Engine) verifyCached(ctx context.Context, t task, target ocispec.Descriptor) error {
	if e.VerifyImage == nil {
		return nil
	}
	return e.VerifyImage(ctx, t.Name, target)
}

// complete makes what is missing of the cached image besides its content. If
// that fails, the container can still be made, only later: the error is the
// context's alone.
func (e *Engine) complete(ctx context.Context, t task, local Local, turn turn) error {
	record := local.Record
	if !local.incomplete || record.Restricted && record.Verified.Digest == "" {
		return nil // names without the proofs of the record would open the image
	}
	if turn == takeTurn {
		unlock, err := e.turns.Lock(ctx, t.Name)
		if err != nil {
			return err
		}
		defer unlock()
	}
	// Another pull may have taken the name since, and a denial a proof.
	now, err := e.Records.Get(ctx, t.Name)
	if err != nil || now.Target.Digest != record.Target.Digest {
		return ctx.Err()
	}
	if err := t.Runtime.Complete(ctx, now.Target, e.stateOf(ctx, now)); err != nil && ctx.Err() == nil {
		prefixlog.G(ctx).WithError(err).Warnf("the cached image %q is not complete, and cannot be completed", t.Name)
	}
	return ctx.Err()
}

// stateOf returns the state that a record has at the time; without proofs, if it has
// been moved or cannot be read.
func (e *Engine) stateOf(ctx context.Context, r store.Record) func() store.State {
	return func() store.State {
		now, err := e.Records.Get(ctx, r.Name)
		if err == nil && now.Target.Digest == r.Target.Digest {
			return now.State
		}
		state := r.State
		state.Access = nil
		return state
	}
}

// stillAllowed returns an error where an image that was completed has turned out
// to stand on layers from other hosts: they were unpacked before, by the
// snapshotter that it was completed for.
func (e *Engine) stillAllowed(ctx context.Context, t task) error {
	if !t.restricted() {
		return nil
	}
	record, err := e.Records.Get(ctx, t.Name)
	if err != nil {
		return fmt.Errorf("read where the image came from: %w", err)
	}
	if t.foreign(record.State) {
		return fmt.Errorf("snapshotter %q has layers of the image from other hosts", t.Snapshotter)
	}
	return nil
}

// fallBack ends a request after a registry failed in its check or its pull. A
// denial takes the caller's proof away first. Then Decide says whether the cached
// image ends the request, with a stale mark, or an error.
func (e *Engine) fallBack(ctx context.Context, t task, c course, phase string, err error) course {
	var cause *resolver.Error
	if !errors.As(err, &cause) {
		return c.ended(failed(ReasonInternal, err))
	}
	c.failed(cause)
	if err := e.revokeIfDenied(ctx, t, c.refusals); err != nil {
		return c.ended(failed(ReasonInternal, err))
	}
	if c.local.Usable() {
		same, err := e.lookAgain(ctx, t, &c)
		if err == nil && same {
			err = e.authorizeAgain(ctx, t, &c.local)
		}
		if err != nil {
			return c.ended(failed(ReasonInternal, err))
		}
	}
	action := Decide(t.directives.Directives, c.local, Check{Class: cause.Class, Cached: c.cached})
	c.use(action.Used...)
	if action.Do == Fail {
		return c.ended(t.failedBy(cause, phase, action.Reason, c.local.Age))
	}
	turn := takeTurn
	if phase == pulling {
		turn = hasTurn
	}
	if c = c.ended(e.reuse(ctx, t, c.local, action, turn)); c.end.kind != UsedCached {
		return c
	}
	stale := store.Stale{Since: c.local.Record.Stale.Since, Reason: cause.Class}
	if stale.Since.IsZero() {
		stale.Since = e.Now()
	}
	target := c.local.target()
	e.Marks.MarkStale(ctx, target, stale, t.names(target)...)
	return c
}

// authorizeAgain finds out whether the caller may still have the image: the proof may
// have been taken away meanwhile, also by another request, and the time of a failure
// counts for its age.
func (e *Engine) authorizeAgain(ctx context.Context, t task, local *Local) (err error) {
	counts := e.word(ctx, t)
	local.Grant, _, err = e.authorize(ctx, t, local.Record, counts)
	local.Age = ageOf(local.Record.State, e.Now(), counts)
	return err
}

// failedBy ends a request by the failure of a registry.
func (t *task) failedBy(cause *resolver.Error, phase string, reason Reason, age Age) end {
	err := fmt.Errorf("%s failed: %s", phase, cause.Detail())
	if len(cause.LeftOut) > 0 {
		err = fmt.Errorf("%w; %s leaves out %s", err, t.directives.Describe(policy.KeyAllowedSources), strings.Join(cause.LeftOut, ", "))
	}
	if reason == ReasonMaxStale {
		err = fmt.Errorf("%w; %s", err, staleText(t.directives.Directives, age))
	}
	return failed(reason, err)
}
