// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"net/http"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// share bounds a request of a fetch that is a part of a check by the host's share of its time. Its end
// is the host's, as in a check, and the fault is that of content that does not begin in time.
type share struct {
	next     http.RoundTripper
	redactor *redact.Redactor
}

// RoundTrip implements http.RoundTripper.
func (s *share) RoundTrip(req *http.Request) (*http.Response, error) {
	p := purpose.Of(req.Context())
	if p.Until.IsZero() {
		return s.next.RoundTrip(req)
	}
	ctx, cancel := InShare(req.Context(), p)
	resp, err := s.next.RoundTrip(req.WithContext(ctx))
	if err == nil {
		resp.Body = &cancelBody{ReadCloser: resp.Body, cancel: func(error) { cancel() }}
		return resp, nil
	}
	defer cancel()
	if _, judged := fault.As(err); !judged && ctx.Err() != nil && req.Context().Err() == nil {
		err = &fault.Fault{Class: failure.Unreachable, Err: s.redactor.Request(req, ErrSlow)}
	}
	return nil, err
}

// InShare returns a context that ends with the share of a host that is asked for p. Where that has all the
// rest, or there are no shares, it is the same.
func InShare(ctx context.Context, p purpose.Purpose) (context.Context, context.CancelFunc) {
	if at, bounded := ctx.Deadline(); p.Until.IsZero() || bounded && !p.Until.Before(at) {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, p.Until, ErrBudget)
}
