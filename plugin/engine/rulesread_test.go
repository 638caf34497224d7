// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

// leavesWhileRulesAreRead has a request end while new rules are read, beside those of before.
func leavesWhileRulesAreRead(t *testing.T, before string) (*node, Outcome, error) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	n := &node{record: cachedImage(first, now)}
	e := n.engine(rule(before))
	rules := e.Rules
	e.Rules = func(ctx context.Context) (*policy.Rules, error) {
		inForce, _ := rules(ctx)
		leave()
		return inForce, ctx.Err()
	}
	o, err := e.Ensure(ctx, n.request(nil))
	_ = e.Close()
	return n, o, err
}

// TestCallerLeavesBeforeTheRulesAreRead has no rules of before decide about a request that ends while new ones are read.
func TestCallerLeavesBeforeTheRulesAreRead(t *testing.T) {
	_, o, err := leavesWhileRulesAreRead(t, `policy = "IfNotPresent"`)
	if !errors.Is(err, context.Canceled) || o.Kind != Failed || o.Reason != ReasonCanceled || o.ImageID != "" {
		t.Errorf("got %s (%s) of %q, %v", o.Kind, o.Reason, o.ImageID, err)
	}
}

// TestObservedCallerLeavesBeforeTheRulesAreRead has rules of before, under which a pull is observed, decide nothing about a
// request that ends while new ones are read: the new ones may enforce.
func TestObservedCallerLeavesBeforeTheRulesAreRead(t *testing.T) {
	n, o, err := leavesWhileRulesAreRead(t, observing)
	if o.Observed || n.stockPulls > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("observed %v, %v, %d pulls by containerd", o.Observed, err, n.stockPulls)
	}
}
