// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
)

// docs/metrics.md: check_seconds is how long the registry took, and
// pullwarden_verify_duration_seconds the time until a registry confirmed a digest: the wait for a
// turn of the budget is none of it.
func TestWaitForTheBudgetIsNoTimeOfTheRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		e := budgeted(n, "60")
		for i := range 31 { // the last one waits for its turn
			o, err := e.Ensure(t.Context(), n.request(nil))
			if err != nil || o.Kind != Unchanged {
				t.Fatalf("check %d: %s %s, %v", i, o.Kind, o.Reason, err)
			}
			if o.CheckTime != 0 {
				t.Errorf("check %d: the registry, which answers at once, took %v", i, o.CheckTime)
			}
		}
	})
}
