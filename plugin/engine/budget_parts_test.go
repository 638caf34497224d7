// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
)

// docs/policies-and-failures.md: where what is left of a budget is for other namespaces, one that has
// used its part is refused at once; where nothing is left, a check waits for its turn.
func TestWhoHasUsedItsPartIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		e := budgeted(n, "60") // 30 at once, 15 of them for those who have made fewer
		from := func(namespace string) Outcome {
			req := n.request(nil)
			req.Namespace = namespace
			o, err := e.Ensure(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		from("quiet")
		for range 14 {
			if o := from("loud"); o.Kind != Unchanged {
				t.Fatalf("%s (%s)", o.Kind, o.Reason)
			}
		}
		if o := from("loud"); o.Kind != UsedCached || o.Elapsed != 0 {
			t.Errorf("%s (%s) after %v", o.Kind, o.Reason, o.Elapsed)
		}
		for range 12 {
			if o := from("quiet"); o.Kind != Unchanged || o.Elapsed != 0 {
				t.Errorf("%s (%s) after %v", o.Kind, o.Reason, o.Elapsed)
			}
		}
	})
}
