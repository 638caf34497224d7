// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// Where a registry is asked anyway, nobody waits for the look before.
func TestLookDoesNotHoldUpTheCheck(t *testing.T) {
	asked := make(chan struct{})
	n := &node{remote: first, record: cachedImage(first, now), onCheck: func() { close(asked) }}
	n.onLook = func(context.Context) { <-asked }
	o, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil))
	if err != nil || o.Result != Unchanged || o.Before != first.Digest || n.checks != 1 {
		t.Errorf("%+v after %d checks, %v", o, n.checks, err)
	}
}

// Where what is here decides, it is looked at before.
func TestLookDecidesWhetherToAsk(t *testing.T) {
	for directive, result := range map[string]Result{
		`max_age = "1h"`:                         Fresh,
		"policy = \"IfNotPresent\"":              Present,
		"policy = \"Never\"":                     Present,
		"policy = \"Always\"\nmax_age = \"24h\"": Fresh,
	} {
		n := &node{remote: second, record: cachedImage(first, now)}
		o, err := n.engine(rule(directive)).Ensure(t.Context(), n.request(nil))
		if err != nil || o.Result != result || n.checks != 0 {
			t.Errorf("%s: %s after %d checks, %v", directive, o.Result, n.checks, err)
		}
	}
}

// A check is of no use when the node cannot be read.
func TestFailedLookCallsOffTheCheck(t *testing.T) {
	n := &node{imageIDErr: errTest, hangs: true}
	var failed *Error
	_, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil))
	if !errors.Is(err, errTest) || !errors.As(err, &failed) || failed.Reason != ReasonInternal {
		t.Error(err)
	}
}

// A refusal takes the caller's proof away even if the request ends for another
// reason.
func TestRefusalCountsWithoutALook(t *testing.T) {
	for _, class := range []failure.Class{failure.Unauthorized, failure.Forbidden} {
		asked := make(chan struct{})
		n := &node{checkFails: class, imageIDErr: errTest, onCheck: func() { close(asked) }}
		n.onLook = func(context.Context) { <-asked }
		_, err := n.engine(rule(`policy = "Always"`)).Ensure(t.Context(), n.request(nil))
		var failed *Error
		if !errors.Is(err, errTest) || !errors.As(err, &failed) || failed.Class != failure.None {
			t.Errorf("%s: %+v", class, failed)
		}
		if !slices.Equal(n.revoked, []store.Fingerprint{alice}) {
			t.Errorf("%s: revoked %v", class, n.revoked)
		}

		// The caller leaves while the look goes on.
		ctx, leave := context.WithCancel(t.Context())
		n = &node{checkFails: class}
		e := n.engine(rule(`policy = "Always"`))
		n.onLook = func(ctx context.Context) {
			for { // until the refusal has been written
				n.mu.Lock()
				done := len(n.revoked) > 0
				n.mu.Unlock()
				if done {
					break
				}
			}
			leave()
			<-ctx.Done()
		}
		if _, err := e.Ensure(ctx, n.request(nil)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", class, err)
		}
	}
}
