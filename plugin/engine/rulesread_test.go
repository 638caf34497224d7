// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

// TestCallerLeavesBeforeTheRulesAreRead has no rules of before decide about a request that ends while new ones are read.
func TestCallerLeavesBeforeTheRulesAreRead(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	n := &node{record: cachedImage(first, now)}
	e := n.engine(rule(`policy = "IfNotPresent"`))
	before := e.Rules
	e.Rules = func(ctx context.Context) (*policy.Rules, error) {
		rules, _ := before(ctx)
		leave()
		return rules, ctx.Err()
	}
	o, err := e.Ensure(ctx, n.request(nil))
	if !errors.Is(err, context.Canceled) || o.Kind != Failed || o.Reason != ReasonCanceled || o.ImageID != "" {
		t.Errorf("got %s (%s) of %q, %v", o.Kind, o.Reason, o.ImageID, err)
	}
}
