// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"time"

	"github.com/pullwarden/pullwarden/resolver/transport"
)

// lastWord is how much longer than its check a fetch may take, so that the end of the check is that of the share of the
// host which is asked then, and told as its failure.
const lastWord = 50 * time.Millisecond

type inCheckKey struct{} // of when the check ends

// InCheck returns a context in which what a [Source] gives is a part of a check that has so much time
// left. Hosts are asked for it as in [Session.Resolve]: each of them once, in its equal share of what is
// left, at whose end the host has timed out. The caller calls cancel.
func InCheck(ctx context.Context, left time.Duration) (_ context.Context, cancel context.CancelFunc) {
	end := time.Now().Add(left)
	return context.WithDeadlineCause(context.WithValue(ctx, inCheckKey{}, end), end.Add(lastWord), transport.ErrBudget)
}

// checkEnd returns when the check ends of which the fetch is a part, if it is one of any.
func (f *fetch) checkEnd() (end time.Time, ok bool) {
	end, ok = f.ctx.Value(inCheckKey{}).(time.Time)
	return end, ok
}

// share is what a host has of the time that is left of the check. As in [session.share], hosts in
// trouble have none, but the reserve.
func (f *fetch) share(h *host, left time.Duration) time.Duration {
	var sh share
	behind := f.behind(h)
	for _, other := range behind {
		if other.health.Blocked(other.Key(), left/time.Duration(len(behind)+1)) {
			sh.reserve = true
		} else {
			sh.others++
		}
	}
	return sh.of(left)
}

// said takes note that a host has answered in a check, or failed: that counts, and it is not asked again, since what
// it would say later may be that it is asked too often.
func (f *fetch) said(h *host) {
	if _, inCheck := f.checkEnd(); inCheck {
		f.left.add(h, errSaid)
	}
}
