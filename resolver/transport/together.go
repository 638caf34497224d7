// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"net/http"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// together is a request that several callers wait for. Guard and report go by the terms of the one
// who began it; this is the same for the others.
type together struct {
	request
	req      *http.Request
	redactor *redact.Redactor
	dialing  *hosts.Dialing
}

var _ purpose.AskedHost = (*together)(nil)

// Skip implements purpose.AskedHost.
func (t *together) Skip(ctx context.Context) error {
	return skip(ctx, t.target, t.req, t.redactor)
}

// Late implements purpose.AskedHost. The host has failed the caller, who speaks for itself alone.
func (t *together) Late(ctx context.Context, since time.Time) error {
	late := t.late(purpose.Of(ctx), since)
	if late == nil {
		return nil
	}
	failed := &fault.Fault{Class: failure.Unreachable, Err: t.redactor.Request(t.req, late)}
	t.of(ctx, since).ended(nil, failed, nil) //nolint:contextcheck // a probe is nobody's request
	return failed
}

// late is the error with which a caller, who has waited since then, would have given up on the connection by now: as shortDial
// has those do that ask alone.
func (t *together) late(p purpose.Purpose, since time.Time) error {
	switch p.Dial() {
	case purpose.FirstDial:
		if late := t.dialing.Late(); !fault.HandshakeTimedOut(late) || p.HasReadyAlternative() {
			return late
		}
	case purpose.SecondDial:
		return t.dialing.LateAgain(since)
	}
	return nil
}

// GaveUp implements purpose.AskedHost. The caller speaks for itself alone.
func (t *together) GaveUp(ctx context.Context, since time.Time) {
	if t.queue.Waiting() {
		return // nobody has been asked
	}
	t.of(ctx, since).ended(nil, ctx.Err(), context.Cause(ctx)) //nolint:contextcheck // a probe is nobody's request
}

// of is the request as that of one caller, whom the host has kept waiting for no longer than that has waited.
func (t *together) of(ctx context.Context, since time.Time) request {
	own := t.request
	own.health = purpose.Of(ctx).Health
	if !own.health.Tells(own.key, t.req.URL) {
		own.probe = nil
	}
	for _, later := range []time.Time{t.queue.Admitted(), since} {
		if later.After(own.began) {
			own.began = later
		}
	}
	return own
}
