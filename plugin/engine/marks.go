// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// Marks write what requests found out to image records. They return at once,
// and hold for records that point at target. They ask who has proved access, and for the
// state of a pull, in one step with adding that. MarkVerified after a check that
// confirmed the cached image, MarkMirrored after a mirror did so in the place of the
// registry, MarkStale after a failure that the cached image was used for, MarkPulled
// after a pull.
type Marks interface {
	MarkVerified(ctx context.Context, target digest.Digest, v store.Verified, proved store.Proved, names ...string)
	MarkMirrored(ctx context.Context, target digest.Digest, v store.Verified, proved store.Proved, names ...string)
	MarkStale(ctx context.Context, target digest.Digest, s store.Stale, names ...string)
	MarkPulled(ctx context.Context, target digest.Digest, state func() store.State, names ...string)
}

// markConfirmed marks what the registry, or a mirror in its place, confirmed for these
// names, and to whom. A name that was told something since keeps that.
func (e *Engine) markConfirmed(ctx context.Context, a answer, names ...string) {
	target := a.verified.Digest
	a.notAhead(e.Now())
	rest, overtaken := e.divide(ctx, target, names, func(now store.State) bool { return e.overtaken(a, now) })
	e.markPulled(ctx, target, overtaken, func(before store.State) store.State {
		state := e.pulledState(a, before)
		if a.originFailed != failure.None {
			state.Stale = before.Stale // whether the image is used so, its caller says
		}
		return state
	})
	// The digest may have been open to all, and the manifest that was read after it not. A host that was shown the
	// node's, too, need not have looked at the caller's.
	a.verified.Unshown = a.verified.Unshown && (a.nodeShown() || !a.shown())
	if a.originFailed == failure.None {
		e.Marks.MarkVerified(ctx, target, a.verified, a.stillProved, rest...)
	} else {
		e.Marks.MarkMirrored(ctx, target, a.verified, a.stillProved, rest...)
	}
}

// markStale marks the cached image that ended a request, whose check failed then: no name that was
// checked since, which can take as long as the image has to be unpacked.
func (e *Engine) markStale(ctx context.Context, t task, c course, reason store.StaleReason, failed time.Time) {
	target := c.local.target()
	names, _ := e.divide(ctx, target, t.names(target), func(now store.State) bool {
		return now.Verified.Digest == target && e.later(now.Verified.At, failed)
	})
	e.Marks.MarkStale(ctx, target, e.staleSince(c.local.Record.Stale, reason), names...)
}

// divide divides names by what their records say of the digest for which they stand.
func (e *Engine) divide(ctx context.Context, target digest.Digest, names []string, says func(store.State) bool) (others, those []string) {
	for _, name := range names {
		if record, err := e.Records.Get(ctx, name); err == nil && record.Target.Digest == target && says(record.State) {
			those = append(those, name)
		} else {
			others = append(others, name)
		}
	}
	return others, those
}

// markPulled lays a state over what each name has.
func (e *Engine) markPulled(ctx context.Context, target digest.Digest, names []string, state func(before store.State) store.State) {
	for _, name := range names {
		record, err := e.Records.Get(ctx, name)
		if errdefs.IsNotFound(err) || err == nil && record.Target.Digest != target {
			continue
		}
		if err != nil {
			prefixlog.G(ctx).WithError(err).Warnf("a mark of image record %q is lost", name)
			continue
		}
		e.Marks.MarkPulled(ctx, target, func() store.State { return state(record.State) }, name)
	}
}

// staleSince is the mark of an image that had that one before.
func (e *Engine) staleSince(before store.Stale, reason store.StaleReason) store.Stale {
	stale := store.Stale{Since: before.Since, Reason: reason}
	if stale.Since.IsZero() {
		stale.Since = e.Now()
	}
	return stale
}

// later reports whether something was said after an answer of then, and not by a clock that was ahead.
func (e *Engine) later(at, then time.Time) bool { return at.After(then) && !at.After(e.Now()) }

// overtaken reports whether a record knows of something that was said after the answer: a manifest
// may have come slowly, or the image had to be unpacked first.
func (e *Engine) overtaken(a answer, now store.State) bool {
	then := a.verified.At
	if now.Verified.Digest == a.verified.Digest && e.later(now.Verified.At, then) || e.later(now.Stale.Since, then) {
		return true
	}
	return slices.ContainsFunc(a.proved, func(f store.Fingerprint) bool { return e.later(now.Access[f].At, then) })
}
