// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"net/http"
	"time"

	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// together is a request that several callers wait for. Guard and report go by the terms of the one
// who began it; this is the same for the others.
type together struct {
	request
	req      *http.Request
	redactor *redact.Redactor
}

var _ purpose.AskedHost = (*together)(nil)

// Skip implements purpose.AskedHost.
func (t *together) Skip(ctx context.Context) error {
	return skip(ctx, t.target, t.req, t.redactor)
}

// GaveUp implements purpose.AskedHost. The host has kept the caller waiting for no longer than that
// has waited, and the caller speaks for itself alone.
func (t *together) GaveUp(ctx context.Context, since time.Time) {
	if t.queue.Waiting() {
		return // nobody has been asked
	}
	own := t.request
	own.health = purpose.Of(ctx).Health
	if !own.health.Tells(t.req.URL) {
		own.probe = nil
	}
	for _, later := range []time.Time{t.queue.Admitted(), since} {
		if later.After(own.began) {
			own.began = later
		}
	}
	own.ended(nil, ctx.Err(), context.Cause(ctx)) //nolint:contextcheck // a probe is nobody's request
}
