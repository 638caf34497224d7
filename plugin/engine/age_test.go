// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/store"
)

func TestAge(t *testing.T) {
	for want, checked := range map[string]time.Time{
		"never":                  {},
		"0s ago":                 now,
		"5m0s ago":               now.Add(-5 * time.Minute),
		"in the future, in 5m0s": now.Add(5 * time.Minute),
		"in the future, in 1s":   now.Add(time.Millisecond),
	} {
		age := ageOf(store.State{Verified: store.Verified{At: checked}}, now, policy.Head, func(string) bool { return true })
		if age.String() != want || (age == NeverChecked) != (want == "never") || age.Within(5*time.Minute) == (age < 0) {
			t.Errorf("%v: %d is %q", checked, age, age)
		}
	}
}
