// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"time"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/store"
)

// Age is the time since the last check of an image. Negative ones count for
// nothing: the image was never checked, or its check lies in the future, after
// the clock went back.
type Age time.Duration

// NeverChecked is the age of an image that was never checked.
const NeverChecked Age = math.MinInt64

// timeGrain is how exactly a person is told how long ago something was.
const timeGrain = time.Second

// ageOf is the age of the last check that counts: one by a host that counts and, where
// checks read the manifest, one that has read it.
func ageOf(s store.State, now time.Time, with policy.CheckWith, counts func(host string) bool) Age {
	at, by := s.Verified.At, s.Verified.By
	if with == policy.Manifest {
		at, by = s.Verified.Read.At, s.Verified.Read.By
	}
	if at.IsZero() || !counts(by) {
		return NeverChecked
	}
	return Age(now.Sub(at))
}

// Within reports whether there was a check, no longer ago than that.
func (a Age) Within(bound time.Duration) bool { return a >= 0 && time.Duration(a) <= bound }

// String is for people: "never", "5m0s ago", "in the future, in 5m0s".
func (a Age) String() string {
	switch {
	case a == NeverChecked:
		return "never"
	case a < 0:
		return "in the future, in " + max(time.Duration(-a).Round(timeGrain), timeGrain).String()
	}
	return time.Duration(a).Round(timeGrain).String() + " ago"
}
