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

// ask asks one host in its share of the time, but for one that the round passes over: then it
// says why. It ends as soon as the host gets into trouble, if there is something else to use.
func (s *session) ask(ctx context.Context, h *host, sh share, r round) (found Resolution, open *health.OpenError, err error) {
	if deadline, ok := ctx.Deadline(); ok && sh.others > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Until(deadline)/time.Duration(1+sh.others), transport.ErrBudget)
		defer cancel()
	}
	p := purpose.Purpose{
		Kind: purpose.Check, Last: sh.last, Fallback: sh.fallback, Answered: s.query.Answered, Health: h.health, Admitted: h.Key(),
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer h.health.Watch(h.Key(), func(open *health.OpenError) {
		if p.CanFailFast(open.Class) {
			cancel(givenUp(open))
		}
	})()
	if open := inTrouble(ctx, h, p, sh.next, r); open != nil {
		return Resolution{}, open, nil
	}
	found, err = s.check(ctx, h, p, sh.manifest)
	return found, nil, err
}

// inTrouble says why a host is passed over in a round, nil if it is not. Where only the caller's
// fallback is left, it waits for a probe that may find the host well again; those of the next
// hosts begin with that, so that a check waits for all of them together.
func inTrouble(ctx context.Context, h *host, p purpose.Purpose, next []*host, r round) *health.OpenError {
	if r == allHosts {
		return nil
	}
	left := p.TimeLeft(ctx)
	open := p.Health.Trouble(h.Key(), left) //nolint:contextcheck // a probe is nobody's request
	if r == wellHosts && !p.Awaits(open) {
		return open
	}
	for _, other := range next {
		if open != nil {
			_ = p.Health.Trouble(other.Key(), left) //nolint:contextcheck // the same
		}
	}
	return p.Health.Await(ctx, h.Key(), left)
}

// passedOver reports whether a host was, for its own trouble or that of one to which it leads, such
// as its token server.
func passedOver(open *health.OpenError, err error) bool {
	f, ok := fault.As(err)
	return open != nil || ok && f.ShortCircuited
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
