// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"
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

// A check whose pod would fail if the registry did not answer in time waits for no turn: the wait
// would be taken from that time.
func TestWaitForTheBudgetFailsNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		e := budgeted(n, "60", "[rule.on]\nunreachable = \"Fail\"")
		began := time.Now()
		for i := range 31 {
			o, err := e.Ensure(t.Context(), n.request(nil))
			want := Unchanged
			if i == 30 { // nothing is left
				want = UsedCached
			}
			if err != nil || o.Kind != want || n.timeout != 5*time.Second {
				t.Errorf("check %d: %s (%s) by a registry that had %v to answer: %v", i, o.Kind, o.Reason, n.timeout, err)
			}
		}
		if waited := time.Since(began); waited != 0 || n.checks != 30 {
			t.Errorf("waited for %v, and %d checks", waited, n.checks)
		}
	})
}
