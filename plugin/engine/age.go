// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
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

// ageOf is the age of the last check that counts.
func ageOf(s store.State, now time.Time, with policy.CheckWith, counts func(host string) bool) Age {
	at := checkedAt(s, now, with, counts)
	if at.IsZero() {
		return NeverChecked
	}
	return Age(now.Sub(at))
}

// checkedAt is when the last check was that counts: one by a host that counts and, where
// checks read the manifest, one that has read it. Zero for none. One that lies in the future tells
// nothing of now, and is the last only where there is no other.
func checkedAt(s store.State, now time.Time, with policy.CheckWith, counts func(host string) bool) time.Time {
	v := s.Verified
	checks := []store.Reading{{At: v.At, By: v.By}, v.Earlier}
	if with == policy.Manifest {
		checks = []store.Reading{v.Read, v.EarlierRead}
	}
	var past, future time.Time
	for _, check := range checks {
		last := &past
		if check.At.After(now) {
			last = &future
		}
		if check.At.After(*last) && counts(check.By) {
			*last = check.At
		}
	}
	if past.IsZero() {
		return future
	}
	return past
}

// maxJitter is the part of max_age by which a check may count for less: half of it, which
// spreads the next checks of nodes that asked together over as much time as the shortest
// takes. Less would leave the registry peaks of more than twice the mean.
const maxJitter = 0.5

// jitter is the part of max_age by which a check counts for less, from 0 to below
// maxJitter. It is the same for as long as the check is the last one, whoever asks, also
// after a restart; each check of a name on a node has another.
func (e *Engine) jitter(name string, checked time.Time) float64 {
	if e.Node == 0 || checked.IsZero() {
		return 0
	}
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, name)
	random := rand.New(rand.NewPCG(e.Node^sum.Sum64(), uint64(checked.Unix()))) //nolint:gosec // jitter, no secret
	return maxJitter * random.Float64()
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
