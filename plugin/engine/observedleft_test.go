// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

// TestObservedCallerLeavesBeforeTheRulesAreRead has rules of before, under which a pull is observed, decide nothing about a
// request that ends while new ones are read: the new ones may enforce.
func TestObservedCallerLeavesBeforeTheRulesAreRead(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	n := &node{record: cachedImage(first, now)}
	e := n.engine(rule(observing))
	before := e.Rules
	e.Rules = func(ctx context.Context) (*policy.Rules, error) {
		rules, _ := before(ctx)
		leave()
		return rules, ctx.Err()
	}
	o, err := e.Ensure(ctx, n.request(nil))
	_ = e.Close()
	if o.Observed || n.stockPulls > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("observed %v, %v, %d pulls by containerd", o.Observed, err, n.stockPulls)
	}
}
