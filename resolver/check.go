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

// check asks one host, with a permit that it releases. The error's text is clean,
// and fault.AnswerClass judges it.
func (s *session) check(ctx context.Context, h *host, permit *health.Permit, sh share) (Resolution, error) {
	defer permit.Release()
	if deadline, ok := ctx.Deadline(); ok && sh.others > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Until(deadline)/time.Duration(1+sh.others), transport.ErrBudget)
		defer cancel()
	}
	start := time.Now()
	ctx = purpose.With(s.redactor.WithQuietLogger(ctx), purpose.Purpose{
		Kind: purpose.Check, Last: sh.sure == 0, Fallback: s.query.Fallback, Permit: permit,
	})
	e := &examiner{known: s.query.Known, wanted: s.spec.Digest(), redactor: s.redactor}
	asked := h.registryHost(h.chain.Registry(e.before), h.dockerAuthorizer())
	_, desc, err := dockerResolver(s.headers, asked).Resolve(ctx, s.query.Reference)
	if err == nil {
		err = e.descriptor(desc)
	}
	if err == nil {
		byNode := h.Identified || len(s.headers) > 0
		return Resolution{Descriptor: desc, Anonymous: !e.shown && !byNode, ByNode: byNode}, nil
	}
	return Resolution{}, s.redactor.Wrap(describe(ctx, err, e.status, s.redactor, time.Since(start)), err)
}

func failedCheck(h *host, err error, elapsed time.Duration) Attempt {
	a := h.attempt(fault.AnswerClass(err), err, elapsed)
	a.Refused = fault.Refused(err, a.Host)
	return a
}

// describe says what went wrong without the wrappings of docker's resolver,
// which repeat URLs. status is the last answer that was no success, "" = none.
func describe(ctx context.Context, err error, status string, redactor *redact.Redactor, elapsed time.Duration) string {
	if f, ok := fault.As(err); ok {
		return f.Error()
	}
	if ctx.Err() != nil {
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
