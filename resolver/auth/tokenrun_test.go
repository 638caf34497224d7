// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
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

// Whose run failed for want of a connection asks by its own terms where these have more time, and joins nobody who asks by
// less: the fetch that gives the connection its second dial, and the last host's check, which has longer than that.
func TestNobodyAsksByAShorterDial(t *testing.T) {
	first := purpose.Purpose{Kind: purpose.Fetch}
	second := purpose.Purpose{Kind: purpose.Fetch, Dialed: true}
	ready := purpose.Purpose{Kind: purpose.Fetch, Dialed: true, Next: []health.Key{{Host: "well"}}} // it has no second dial
	last := purpose.Purpose{Kind: purpose.Check, Last: true}
	for name, test := range map[string]struct {
		began, asks, other purpose.Purpose
		anew, same         bool
	}{
		"a first dial by a first one":                                  {first, first, first, false, true},
		"a second one by a first one":                                  {first, second, second, true, true},
		"a second one by a first one that was dialed":                  {ready, second, second, true, true},
		"a second one by a second one":                                 {second, second, second, false, true},
		"the last host's by a second one":                              {second, last, last, true, true},
		"the last host's by a first one, as a second one asks anew":    {first, last, second, true, false},
		"a second one by a first one, as the last host's asks anew":    {first, second, last, true, true},
		"the last host's by a first one, as a first one is tried anew": {first, last, first, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			tk := newTokens(func(*meter) docker.Authorizer { return hanging{} }, false)
			tk.challenged, tk.wants = true, &http.Response{Header: http.Header{}}
			join := func(p purpose.Purpose, last *tokenRun) *tokenRun {
				r := tk.join(purpose.With(t.Context(), p), &url.URL{Scheme: "https", Host: registryName}, last)
				t.Cleanup(func() {
					r.cancel()
					<-r.done
				})
				return r
			}
			begun := join(test.began, nil)
			failed := &tokenRun{
				err:  &fault.Fault{Class: failure.Unreachable, Err: &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}},
				dial: begun.dial, wants: tk.wants,
			}
			tk.drop()
			if anew := failed.ownTerms(test.asks); anew != test.anew {
				t.Errorf("it asks by its own terms: %v", anew)
			}
			if other, own := join(test.other, failed), join(test.asks, failed); (other == own) != test.same {
				t.Errorf("they share a try: %v", other == own)
			}
		})
	}
}
