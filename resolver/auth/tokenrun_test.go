// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net/http"
	"net/url"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
)

// hanging is docker's authorizer where a token server hangs.
type hanging struct{}

func (hanging) AddResponses(context.Context, []*http.Response) error { return nil }

func (hanging) Authorize(ctx context.Context, _ *http.Request) error {
	<-ctx.Done()
	return ctx.Err()
}

// Those who try again do so together, but for what has been given up, what another one may have passed
// over, and what was only presumed.
func TestWhoTriesAgainTogether(t *testing.T) {
	failed := func(f fault.Fault) *tokenRun {
		f.Class = failure.Unavailable
		return &tokenRun{err: &f, wants: &http.Response{Header: http.Header{}}}
	}
	for name, test := range map[string]struct {
		last   *tokenRun
		before func(tk *tokens, join func(last *tokenRun) *tokenRun, last *tokenRun) *tokenRun
		same   bool
	}{
		"another one has begun": {failed(fault.Fault{}), func(_ *tokens, join func(*tokenRun) *tokenRun, last *tokenRun) *tokenRun {
			return join(last)
		}, true},
		"… and has left": {failed(fault.Fault{}), func(tk *tokens, join func(*tokenRun) *tokenRun, last *tokenRun) *tokenRun {
			r := join(last)
			tk.leave(r)
			return r
		}, false},
		"somebody else asks": {failed(fault.Fault{}), func(_ *tokens, join func(*tokenRun) *tokenRun, _ *tokenRun) *tokenRun {
			return join(failed(fault.Fault{}))
		}, true},
		"… and may pass over the host": {failed(fault.Fault{ShortCircuited: true}), func(_ *tokens, join func(*tokenRun) *tokenRun, _ *tokenRun) *tokenRun {
			return join(failed(fault.Fault{}))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tk := newTokens(func(*meter) docker.Authorizer { return hanging{} }, false)
			var begun []*tokenRun
			join := func(last *tokenRun) *tokenRun {
				r := tk.join(t.Context(), &url.URL{Scheme: "https", Host: registryName}, last)
				begun = append(begun, r)
				return r
			}
			first := test.before(tk, join, test.last)
			if second := join(test.last); second == nil || first == second != test.same {
				t.Errorf("they share a try: %v", first == second)
			}
			for _, r := range begun {
				r.cancel()
				<-r.done
			}
		})
	}
	tk := newTokens(func(*meter) docker.Authorizer { return hanging{} }, false)
	presumed := failed(fault.Fault{})
	presumed.presumed = true
	if tk.join(t.Context(), &url.URL{}, presumed) != nil || tk.challenged {
		t.Error("a token is asked for by what was presumed, and given up")
	}
}
