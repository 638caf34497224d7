// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"time"

	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
	"github.com/pullwarden/pullwarden/resolver/transport"
)

// ask asks the host whose turn it is in its share of the time, for the manifest at once if the pull
// that follows would (see Query.Absent). It passes over one that the round does: then it says why. It
// ends as soon as the host gets into trouble, if there is something else to use.
func (s *session) ask(ctx context.Context, t turn, manifest bool, waits health.Waits) (found Resolution, open *health.OpenError, err error) {
	h := t.hosts[0]
	if open := s.inTrouble(ctx, t, waits); open != nil {
		return Resolution{}, open, nil
	}
	sh := s.share(ctx, t) // after the wait for probes: others may be well by them, too
	p := s.purpose(t, sh, waits)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer h.health.Watch(h.Key(), func(open *health.OpenError) {
		if p.CanFailFast(open.Class) {
			cancel(givenUp(open))
		}
	})()
	if t.round != allHosts { // it may have got into trouble since inTrouble has said
		if open := h.health.Trouble(h.Key(), 0); open != nil { //nolint:contextcheck // a probe is nobody's request
			return Resolution{}, open, nil
		}
	}
	if left := sh.timeLeft(ctx); left != 0 && (sh.others > 0 || sh.reserve) {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, left, transport.ErrBudget)
		defer stop()
	}
	found, err = s.check(ctx, h, p, manifest)
	return found, nil, err
}

// purpose is what a host is asked for in its turn.
func (s *session) purpose(t turn, sh share, waits health.Waits) purpose.Purpose {
	h := t.hosts[0]
	return purpose.Purpose{
		Kind: purpose.Check, Last: sh.last, Force: t.round != wellHosts, Fallback: sh.fallback, Next: sh.next, Waits: waits,
		Answered: s.query.Answered, Health: h.health, Admitted: h.Key(),
	}
}

// inTrouble says why a host is passed over in its turn, nil if it is not. Where only the caller's
// fallback is left, it waits for a probe that may find the host well again; those of the next
// hosts begin with that, so that a check waits for all of them together.
func (s *session) inTrouble(ctx context.Context, t turn, waits health.Waits) *health.OpenError {
	if t.round == allHosts {
		return nil
	}
	sh := s.share(ctx, t)
	p, left := s.purpose(t, sh, waits), sh.timeLeft(ctx)
	open := p.Health.Trouble(p.Admitted, left) //nolint:contextcheck // a probe is nobody's request
	if t.round == wellHosts && !p.Awaits(open) {
		return open
	}
	return p.Health.Await(ctx, p.Admitted, left, p.Waits, p.Next...)
}

// leadsToTrouble reports whether a host that was passed over for another one's trouble, such as its
// token server's, would be again. It waits as for the host's own.
func (s *session) leadsToTrouble(ctx context.Context, t turn, waits health.Waits) bool {
	h := t.hosts[0]
	troubled := t.troubled[h]
	if troubled == h.Key() {
		return false
	}
	sh := s.share(ctx, t)
	open := h.health.Await(ctx, troubled, sh.timeLeft(ctx), waits, sh.next...)
	return open != nil && sh.fallback.Has(open.Class)
}

// passedOver reports whether a host was, for its own trouble or that of one to which it leads, such
// as its token server; and for whose.
func passedOver(h *host, open *health.OpenError, err error) (troubled health.Key, passed bool) {
	if f, ok := fault.As(err); ok && f.ShortCircuited {
		return f.Troubled, true
	}
	return h.Key(), open != nil
}

// check asks one host, for the manifest at once if the pull that follows would. The
// error's text is clean, and fault.AnswerClass judges it.
func (s *session) check(ctx context.Context, h *host, p purpose.Purpose, manifest bool) (Resolution, error) {
	ctx = purpose.With(s.redactor.WithQuietLogger(ctx), p)
	var end outcome
	if manifest && !s.query.ReadManifest {
		end = s.manifestOrDigest(ctx, h)
	} else {
		w := s.newWay(h, nil)
		w.examiner.manifests = s.query.ReadManifest
		end = w.resolve(ctx)
		w.finish(end.err == nil)
	}
	return end.found, end.err
}

// givenUp is why a check leaves a host that got into trouble meanwhile.
func givenUp(open *health.OpenError) *fault.Fault {
	return &fault.Fault{Class: open.Class, Err: fmt.Errorf("given up: %w", open)}
}

// checkError is why a check of one host failed.
type checkError struct {
	error
	own bool // it is an answer of the host itself: see examiner.owns
}

// Unwrap returns the cause.
func (e *checkError) Unwrap() error { return e.error }

// failedCheck is the attempt at a host that was passed over, or whose check failed.
func failedCheck(h *host, open *health.OpenError, err error, elapsed time.Duration) Attempt {
	if open != nil {
		return h.attempt(open.Class, open, 0)
	}
	return h.answer(fault.AnswerClass(err), err, elapsed, isOwn(err))
}

// isOwn reports whether a check failed by an answer of the host itself.
func isOwn(err error) bool {
	e, ok := errors.AsType[*checkError](err)
	return ok && e.own
}

// describe says what went wrong without the wrappings of docker's resolver,
// which repeat URLs. status is the last answer that was no success, "" = none.
func describe(ctx context.Context, err error, status string, redactor *redact.Redactor, elapsed time.Duration) string {
	if f, ok := fault.As(err); ok {
		return f.Error()
	}
	if ctx.Err() != nil && !fault.AnswerClass(err).Refuses() {
		return fmt.Sprintf("no answer within %v", elapsed.Round(time.Millisecond))
	}
	if answer, ok := errors.AsType[remoteerrors.ErrUnexpectedStatus](err); ok {
		return redactor.Answer(answer)
	}
	if errdefs.IsNotFound(err) && status != "" {
		return status
	}
	return err.Error()
}
