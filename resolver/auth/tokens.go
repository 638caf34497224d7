// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
	"github.com/pullwarden/pullwarden/resolver/tries"
)

// tokens is docker's authorizer for one host, one repository and one caller's
// credentials. Sessions share it: they join the token request that is under
// way, and each leaves it on its own. Safe for concurrent use; no lock is held
// while anybody is asked.
type tokens struct {
	make   func(*meter) docker.Authorizer // a new one, which knows no challenge and no token
	meter  atomic.Pointer[meter]          // of the answers that the authorizers get
	kept   kept                           // of the Cache
	cache  *Cache                         // that keeps them, nil = none does
	caller *caller                        // for whom they are; nil = nothing is known of other repositories
	own    *redact.Redactor               // of the client that asks for them; nil = that of the session
	asksBy int                            // bytes of the credentials that it asks with; 0 = it has none, or asks for them

	// credentialed says that there are credentials to ask with, or that nobody knows. A user name
	// alone is none: nobody is shown it.
	credentialed bool

	mu         sync.Mutex
	inner      docker.Authorizer
	challenged bool           // inner knows what the host wants
	wants      *http.Response // the same, as the host said it
	named      time.Time      // when the host has last said what it wants for the repository; zero = never
	vain       bool           // that has not helped since: a renewal by it failed, or brought a token that was answered by 400
	answers    int            // of the authorizers so far
	header     string         // the Authorization that inner gave last, "" = none yet
	since      time.Time      // when that was
	run        *tokenRun      // under way, nil = none
	runs       int            // of which that may be one: others have been given up
	expected   expected
	renewal    renewal
}

func newTokens(renew func(*meter) docker.Authorizer, credentialed bool) *tokens {
	t := &tokens{make: renew, credentialed: credentialed}
	t.meter.Store(&meter{})
	t.inner = t.renew()
	return t
}

// renew makes a new authorizer.
func (t *tokens) renew() docker.Authorizer { return t.make(t.meter.Load()) }

// drop forgets challenge and tokens: docker's authorizer keeps a token request
// that failed or was given up, and would fail with it for ever. Who comes next joins none that is
// under way, since it is for another challenge.
func (t *tokens) drop() {
	t.inner, t.challenged, t.wants, t.header, t.run = t.renew(), false, nil, "", nil
}

// authorization returns the Authorization for requests to u, "" for none. It asks
// the token server if need be. An error
// of ctx means that the caller has left; others are of the token server, whose refusal is
// returned also where it comes as the last caller leaves.
func (t *tokens) authorization(ctx context.Context, u *url.URL) (string, error) {
	var last *tokenRun
	for try, insists := 1, false; ; try++ {
		r := t.join(ctx, u, last)
		if r == nil {
			return "", nil
		}
		if err := t.wait(ctx, r, last != nil); err != nil {
			return "", err
		}
		f, failed := fault.As(r.err)
		switch {
		case !failed:
			return r.header, r.err
		case !insists && r.ownTerms(purpose.Of(ctx)):
			insists = true
			try-- // nobody was asked, or not for long
		default:
			if err := tries.Again(ctx, f, try, r.jitter); err != nil {
				return "", err
			}
		}
		last = r
	}
}

// challenge takes note of what the host wants in an answer to a request for the
// repository that had no token: in place of a suspect, which is used on until it is renewed by that, or "".
func (t *tokens) challenge(ctx context.Context, last *http.Response, repository, suspect string) error {
	seen, read := readChallenge(last, repository)
	fresh := t.renew()
	err := meet(ctx, fresh, last)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expected.presuming && (!read || !seen.isOf(t.expected.wants, repository)) {
		t.drop()
	}
	t.expected.tried, t.expected.presuming = true, false
	switch {
	case t.challenged && (suspect == "" || t.header != suspect):
		return nil // the request was sent before that was known
	case err != nil:
		return err
	case !t.challenged:
		t.inner = fresh
	}
	t.hear(last)
	return nil
}

// hear takes note of what the host wants. The caller holds the lock.
func (t *tokens) hear(last *http.Response) {
	t.challenged, t.wants, t.named, t.vain = true, bare(last), time.Now(), false //nolint:bodyclose // it has none
}

// bare is an answer with its challenge alone: no token, no body.
func bare(resp *http.Response) *http.Response {
	return &http.Response{
		StatusCode: resp.StatusCode,
		Header:     http.Header{"Www-Authenticate": resp.Header.Values("WWW-Authenticate")},
		Request:    &http.Request{Method: resp.Request.Method, URL: &url.URL{Scheme: resp.Request.URL.Scheme, Host: resp.Request.URL.Host}, Header: http.Header{}},
	}
}

// expire forgets a token that is no good any more, but not what the host wants. It
// reports whether that was so.
func (t *tokens) expire() bool {
	_, expires := t.meter.Load().last()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.run != nil || expires.IsZero() || time.Now().Before(expires) {
		return false
	}
	if t.own != nil {
		t.own.KeepTokens(0)
	}
	if t.challenged {
		t.meet(context.Background(), t.wants)
	}
	return true
}

// meet forgets the tokens, and has a challenge of before met.
func (t *tokens) meet(ctx context.Context, wants *http.Response) bool {
	t.drop()
	if meet(ctx, t.inner, wants) == nil {
		t.challenged, t.wants = true, wants
	}
	return t.challenged
}

// size is how much is kept, about, in bytes, and how many answers there were.
func (t *tokens) size() (size, answers int) {
	answer, _ := t.meter.Load().last()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.header != "" {
		size = answer + len(t.header)
	}
	if t.own != nil {
		size += t.asksBy + t.own.Bytes()
	}
	size += challengeSize(t.wants)
	if t.expected.wants != t.wants {
		size += challengeSize(t.expected.wants)
	}
	return size, t.answers
}
