// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net/http"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// spareTime is how long a token is used that could not be renewed, until that is tried again.
const spareTime = 10 * time.Second

// spare is a token that is being renewed since its server has not said how long it is good, which may well be for longer than
// assumedLife. Guarded by the lock of tokens.
type spare struct {
	inner  docker.Authorizer
	wants  *http.Response
	header string    // "" = there is none
	over   time.Time // for sessions that begin later
	again  time.Time // it is not renewed before
}

// renewFor has a token renewed that is assumed to be over, for a session that has begun since then. To one of before it returns
// the Authorization that it has had, until there is another: stock containerd's pulls use theirs to the end. "" = there is none.
func (t *tokens) renewFor(ctx context.Context, began time.Time) (header string) {
	assumed := t.meter.assumes()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spare.header != "" && t.spare.header != t.header && began.Before(t.spare.over) {
		return t.spare.header
	}
	if t.header == "" || assumed.IsZero() || began.Before(assumed) || t.run != nil || time.Now().Before(t.spare.again) {
		return ""
	}
	t.spare = spare{inner: t.inner, wants: t.wants, header: t.header, over: assumed}
	t.meet(ctx, t.wants)
	return ""
}

// putBack has a token used again that could not be renewed, unless its server refuses the caller, and reports whether there is
// one. The caller holds the lock.
func (t *tokens) putBack(cause error) bool {
	s := t.spare
	t.spare = spare{}
	if s.header == "" || fault.TokenClass(cause).Refuses() {
		return false
	}
	t.inner, t.challenged, t.wants, t.header = s.inner, true, s.wants, s.header
	t.spare.again = time.Now().Add(spareTime)
	return true
}
