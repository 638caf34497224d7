// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net/http"
)

// expected is what tokens know of a challenge that nobody has given for their repository.
// The lock of tokens guards it.
type expected struct {
	tried     bool           // it was presumed once, or the host has said what it wants
	presuming bool           // tokens meet it, and the host has not confirmed it
	wants     *http.Response // the same as an answer; nil = it was never presumed
}

// untried reports whether a challenge may be presumed: once, until the host gives one.
func (t *tokens) untried() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.expected.tried
}

// presumed returns the challenge that tokens meet, if the host has not given it; else nil.
func (t *tokens) presumed() *http.Response {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.expected.presuming {
		return nil
	}
	return t.expected.wants
}

// presume makes tokens meet a challenge.
func (t *tokens) presume(ctx context.Context, wants *http.Response) {
	fresh := t.renew()
	if meet(ctx, fresh, wants) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expected.tried || t.challenged {
		return
	}
	t.expected = expected{tried: true, presuming: true, wants: wants}
	t.inner, t.challenged, t.wants = fresh, true, wants
}

// unpresume forgets what was presumed.
func (t *tokens) unpresume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expected.presuming {
		t.expected.presuming = false
		t.drop()
	}
}

// given returns the Authorization that was given last, "" for none.
func (t *tokens) given() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.header
}

// revoked forgets what was presumed, where that Authorization is what has come of it.
func (t *tokens) revoked(header string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expected.presuming && t.header == header {
		t.expected.presuming = false
		t.drop()
	}
}

// confirm takes note that what was presumed is right.
func (t *tokens) confirm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expected.presuming = false
}
