// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package tries

import (
	"testing"
	"time"
)

func TestBackoffGrows(t *testing.T) {
	for try := 1; try < MaxAttempts; try++ {
		bound, longest := FirstBackoff<<(try-1), time.Duration(0)
		for range 1000 {
			d := backoff(try, Jitter())
			if d < 0 || d >= bound {
				t.Fatalf("try %d: %s is not below %s", try, d, bound)
			}
			longest = max(longest, d)
		}
		if longest < bound/2 {
			t.Errorf("try %d: no backoff of 1000 was longer than %s of %s", try, longest, bound)
		}
	}
}
