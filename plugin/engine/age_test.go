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

// The newest check counts that is by a host which counts, and of the kind that the rule wants: one
// that lies in the future only where there is no other.
func TestCheckedAt(t *testing.T) {
	at := func(minutes int, by string) store.Reading {
		return store.Reading{At: now.Add(time.Duration(minutes) * time.Minute), By: by}
	}
	v := store.Verified{
		At: at(9, "").At, By: "mirror.test", Earlier: at(5, "registry.test"),
		Read: at(7, "mirror.test"), EarlierRead: at(3, "registry.test"),
	}
	origin := func(host string) bool { return isOrigin(host, "registry.test") }
	for _, tc := range []struct {
		with   policy.CheckWith
		counts func(string) bool
		now    int
		want   int
	}{
		{policy.Head, anyHost, 9, 9}, {policy.Head, origin, 9, 5}, {policy.Manifest, anyHost, 9, 7}, {policy.Manifest, origin, 9, 3},
		{policy.Head, anyHost, 8, 5}, {policy.Head, anyHost, 4, 9}, {policy.Head, origin, 4, 5}, {policy.Manifest, anyHost, 4, 3},
	} {
		if got := checkedAt(store.State{Verified: v}, at(tc.now, "").At, tc.with, tc.counts); !got.Equal(at(tc.want, "").At) {
			t.Errorf("%v: %v, want %d minutes", tc, got, tc.want)
		}
	}
	if got := checkedAt(store.State{Verified: v}, at(9, "").At, policy.Head, noHost); !got.IsZero() {
		t.Errorf("by nobody: %v", got)
	}
}
