// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/store"
)

// errNever returns why the policy Never fails a request: no word tells whether there
// is an image.
func (t *task) errNever() error {
	holder := "these credentials"
	if t.directives.AccessIdentity == policy.Namespace {
		holder = "this namespace"
	}
	return fmt.Errorf("there is no image that %s may have on the node, and the policy Never asks no registry", holder)
}

// apply carries out a decision that no registry was asked for.
func (e *Engine) apply(ctx context.Context, t task, c course, action Action) end {
	if action.Do == Fail {
		return failed(action.Reason, t.errNever())
	}
	return e.reuse(ctx, t, c, action, takeTurn)
}

// unchanged reuses the image that the registry, or a mirror in its place, confirmed
// for these names. Whose it is by that is recorded first: to unpack it takes time, and may fail.
func (e *Engine) unchanged(ctx context.Context, t task, c course, action Action, turn turn, names ...string) course {
	if !c.answer.actUponUnlessOutdated() { // before a pull that is under way looks whether somebody has
		return c.ended(failed(ReasonPull, errOutdated))
	}
	if c.local.incomplete {
		e.nameByDigest(ctx, t, c.local.target())
	}
	e.markConfirmed(ctx, c.answer, names...)
	c = c.ended(e.reuse(ctx, t, c, action, turn))
	if c.end.kind == UsedCached {
		e.markStale(ctx, t, c, store.MirrorFallback, c.answer.verified.At)
	}
	return c
}

// turn says whether the turn of a name's pulls has to be taken.
type turn uint8

const (
	takeTurn turn = iota
	hasTurn
	ifFree // no pull is waited for
)

// reuse ends a request with the cached image, if the image verifiers of the
// node agree: they are asked before each pull, and reuse is no way around them.
func (e *Engine) reuse(ctx context.Context, t task, c course, action Action, turn turn) end {
	t.heard = c.heard // see stillGranted
	local, target := c.local, c.local.Record.Target
	if err := e.agree(ctx, t, local); err != nil {
		return failed(ReasonVerifier, err)
	}
	if err := e.complete(ctx, t, local, turn); err != nil {
		return failed(ReasonCanceled, err)
	}
	// To ask verifiers takes as long as they like, and to complete an image may, too; a dry run has completed nothing.
	waited := e.VerifyImage != nil && !local.agreed || local.incomplete && !e.dry
	if waited && t.restricted() && !local.compared && !e.dry {
		if err := e.stillAllowed(ctx, t, local.target()); err != nil {
			return failed(ReasonSource, err)
		}
	}
	if waited && !hasHeardYes(action) {
		if err := e.stillGranted(ctx, t, local); err != nil {
			return failed(ReasonInternal, err)
		}
	}
	if action.Kind != Unchanged && local.Grant.By != "" {
		e.Proofs.Used(ctx, local.Grant.By, e.Now(), t.names(target.Digest)...)
	}
	return reused(action, local)
}

// hasHeardYes reports whether the request reuses an image for what its own check was told.
func hasHeardYes(action Action) bool {
	return action.Kind == Unchanged || action.Kind == Pulled || action.Reason == ReasonMirrorFallback
}

// reused ends a request with the cached image.
func reused(action Action, local Local) end {
	return end{kind: action.Kind, reason: action.Reason, imageID: local.ImageID, digest: local.target(), source: local.Record.PullSource}
}

// askVerifiers asks the image verifiers of the node about an image; nil means that they
// agree, or that there are none.
func (e *Engine) askVerifiers(ctx context.Context, t task, target ocispec.Descriptor) error {
	if e.VerifyImage == nil {
		return nil
	}
	return e.VerifyImage(ctx, t.Name, target)
}

// agree asks the image verifiers about the cached image, unless they have agreed already.
func (e *Engine) agree(ctx context.Context, t task, local Local) error {
	if local.agreed {
		return nil
	}
	return e.askVerifiers(ctx, t, local.Record.Target)
}

// blocked reports whether the image verifiers of the node refuse the cached image to a caller who
// has proved nothing. It counts as absent then, and a pull is refused before anything is
// fetched, with containerd's own words: another error would tell that the image is there.
func (e *Engine) blocked(ctx context.Context, t task, local *Local) bool {
	if local.isKnown() {
		return false
	}
	local.agreed = e.askVerifiers(ctx, t, local.Record.Target) == nil
	return !local.agreed
}

// complete makes what is missing of the cached image besides its content. If
// that fails, or a pull has the turn, the container can still be made, only later: the
// error is the context's alone. Under a list of sources the turn is waited for: a container
// that unpacks the image itself would stand on layers from wherever.
func (e *Engine) complete(ctx context.Context, t task, local Local, turn turn) error {
	if !local.incomplete {
		return nil
	}
	if turn == takeTurn && !t.restricted() {
		// A pull has the turn for as long as a registry likes, and may hold up nobody who has the
		// image. Who else completes it is waited for: the container of each would unpack it.
		own, next, err := e.completions.Lock(ctx, t.Name, e.Patience)
		if err != nil {
			return err
		}
		defer next()
		ctx = own
		turn = ifFree
	}
	by := t.Name
	switch turn {
	case hasTurn:
	case ifFree:
		own, unlock, free := e.turns.TryLock(ctx, by)
		if !free { // the pull that has it moves that name alone: who proves the image is noted by its digest
			by = t.canonical(local.target())
			own, unlock, free = e.turns.TryLock(ctx, by)
		}
		if !free {
			return nil
		}
		defer unlock()
		ctx = own
	default:
		own, unlock, err := e.turns.Lock(ctx, t.Name, e.Patience)
		if err != nil {
			return err
		}
		defer unlock()
		ctx = own
	}
	// Another pull may have taken the name since, and a denial a proof.
	now, err := e.Records.Get(ctx, t.Name)
	if err != nil || now.Target.Digest != local.target() {
		return ctx.Err()
	}
	if now.Restricted && !now.Said() {
		return nil // a name that has no check would open the image
	}
	e.nameByDigest(ctx, t, local.target())
	if err := t.Runtime.Complete(ctx, local.Record.Target, e.completion(ctx, t, by, now)); err != nil && ctx.Err() == nil {
		prefixlog.G(ctx).WithError(err).Warnf("the cached image %q is not complete, and cannot be completed", t.Name)
	}
	return ctx.Err()
}

// nameByDigest makes sure that there is a record of repository@digest for all tags of the repository that stand for
// the image, with the proofs of the requested name. It needs neither the turn of a pull nor a snapshot, and does not end
// with the request: what that was told is marked next.
func (e *Engine) nameByDigest(ctx context.Context, t task, target digest.Digest) {
	canonical := t.canonical(target)
	if canonical == t.Name {
		return
	}
	if err := e.Proofs.ShareProofs(context.WithoutCancel(ctx), target, t.Name, canonical); err != nil {
		prefixlog.G(ctx).WithError(err).Warnf("the image %q has no record by its digest", t.Name)
	}
}

// completion is the plan by which an image is completed. What others unpack is waited for as by
// pulls: what an image says of its layers may be a lie. A record that says nothing of who may have
// the image is made to say what that of the name does when it gets the state: to unpack takes time,
// in which a proof may end.
func (e *Engine) completion(ctx context.Context, t task, name string, r store.Record) *transfer.Plan {
	state := e.stateOf(ctx, r)
	return &transfer.Plan{
		Reference: name,
		Scope:     t.scope(nil),
		// Pulls that containerd makes by itself wait for no turn: they may have given the name to another image. One that was
		// removed meanwhile is not made anew: it would say nothing of who has proved what.
		Verify: func(ctx context.Context, target ocispec.Descriptor) error {
			if now, err := e.Records.Get(ctx, name); err != nil || now.Target.Digest != target.Digest {
				return fmt.Errorf("%s stands for something else than %s by now: %w", name, target.Digest, transfer.ErrGone)
			}
			return nil
		},
		State: func(_ digest.Digest, before store.State) store.State {
			if before.Restricted {
				return before
			}
			after := state()
			if name != r.Name {
				after.Pin = store.Pin{} // a pin goes with its tag
			}
			return after
		},
	}
}

// stateOf returns the state that a record has at the time, without its proofs: one
// that is revoked before another record has the state would stay there.
func (e *Engine) stateOf(ctx context.Context, r store.Record) func() store.State {
	return func() store.State {
		state := r.State
		if now, err := e.Records.Get(ctx, r.Name); err == nil && now.Target.Digest == r.Target.Digest {
			state = now.State
		}
		state.Access, state.Earlier = nil, nil
		return state
	}
}

// stillAllowed returns an error, with which the request begins anew, where an image that was completed has turned out
// to stand on layers from other hosts: they were unpacked before, by the snapshotter that it was completed for; or
// where some of it has come from those meanwhile. Nothing is known of one whose name has been removed, or given to
// another one.
func (e *Engine) stillAllowed(ctx context.Context, t task, target digest.Digest) error {
	record, err := e.Records.Get(ctx, t.Name)
	if errdefs.IsNotFound(err) || err == nil && record.Target.Digest != target {
		return fmt.Errorf("the name does not stand for %s any more: %w", target, transfer.ErrGone)
	}
	if err != nil {
		return fmt.Errorf("read where the image came from: %w", err)
	}
	record.HasLayers = true // as was made sure of before
	foreign, err := e.foreign(ctx, t, record)
	if err == nil && foreign {
		err = fmt.Errorf("snapshotter %q has layers of the image that are not known to be from allowed hosts: %w", t.Snapshotter, transfer.ErrGone)
	}
	return err
}
