// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

const (
	// spareTime is how long a token is used that could not be renewed, until that is tried again.
	spareTime = 10 * time.Second
	// renewTime is how long anybody waits for that, and no more than a quarter of the time that there is.
	renewTime = 5 * time.Second
)

// spare is a token that is being renewed since its server has not said how long it is good, which may well be for longer than
// assumedLife. Guarded by the lock of tokens.
type spare struct {
	inner  docker.Authorizer
	wants  *http.Response
	header string    // "" = there is none
	over   time.Time // for sessions that begin later
	again  time.Time // it is not renewed before
}

// renewFor has a token renewed that is assumed to be over, for a session that has begun since then, and reports whether that is
// under way. To one of before it returns the Authorization that it has had, until there is another: stock containerd's pulls use
// theirs to the end. "" = there is none.
func (t *tokens) renewFor(ctx context.Context, began time.Time) (header string, renews bool) {
	assumed := t.meter.assumes()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spare.header != "" && t.spare.header != t.header && began.Before(t.spare.over) {
		return t.spare.header, false
	}
	if t.header == "" || assumed.IsZero() || began.Before(assumed) || t.run != nil || time.Now().Before(t.spare.again) {
		return "", t.run != nil && t.spare.header != ""
	}
	t.spare = spare{inner: t.inner, wants: t.wants, header: t.header, over: assumed}
	t.meet(ctx, t.wants)
	return "", true
}

// renewed returns the Authorization by a token that is being renewed, or in good time by the one of before, which may well be good.
func (a *Authorizer) renewed(ctx context.Context, t *tokens, u *url.URL) (string, error) {
	within, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	within, end := inQuarter(within)
	defer end()
	header, err := a.asks(within, t, u)
	late := err != nil && within.Err() != nil && ctx.Err() == nil
	if !late || fault.TokenClass(err).Refuses() {
		return header, err
	}
	if before := t.before(); before != "" {
		return before, nil
	}
	return a.asks(ctx, t, u)
}

// before returns the Authorization that is used where it is not renewed in time, "" for none.
func (t *tokens) before() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(t.header, t.spare.header)
}

// putBack drops what has failed, and has the token that could not be renewed used again, unless its server refuses the caller. It
// reports whether there is one. The challenge stays that which was met last. The caller holds the lock.
func (t *tokens) putBack(cause error) bool {
	s, wants := t.spare, t.wants
	t.spare = spare{}
	t.drop()
	if s.header == "" || fault.TokenClass(cause).Refuses() {
		return false
	}
	t.inner, t.challenged, t.wants, t.header = s.inner, true, cmp.Or(wants, s.wants), s.header //nolint:bodyclose // they have none
	t.spare.again = time.Now().Add(spareTime)
	return true
}

// takeBack forgets a token that was put back, since its server has refused the caller.
func (t *tokens) takeBack(header string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if header != "" && t.header == header && t.run == nil {
		t.drop()
		t.spare = spare{}
	}
}
