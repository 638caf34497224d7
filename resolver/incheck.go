// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"slices"
	"time"

	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/transport"
)

type inCheckKey struct{}

// InCheck returns a context in which what a [Source] gives is a part of a check that has so much time
// left. Hosts are asked for it as in [Session.Resolve]: each of them once, in its equal share of what is
// left, at whose end the host has timed out. The caller calls cancel.
func InCheck(ctx context.Context, left time.Duration) (_ context.Context, cancel context.CancelFunc) {
	return context.WithTimeoutCause(context.WithValue(ctx, inCheckKey{}, true), left, transport.ErrBudget)
}

// inCheck reports whether the fetch is a part of a check.
func (f *fetch) inCheck() bool { return f.ctx.Value(inCheckKey{}) != nil }

// share is that of a host in the check of which the fetch is a part. As in [session.share], hosts in
// trouble have none, but the reserve.
func (f *fetch) share(h *host) (sh share) {
	behind := f.hosts[slices.Index(f.hosts, h)+1:]
	left := purpose.Purpose{}.TimeLeft(f.ctx) / time.Duration(len(behind)+1)
	for _, other := range behind {
		if other.health.Blocked(other.Key(), left) {
			sh.reserve = true
		} else {
			sh.others++
		}
	}
	return sh
}
