// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "time"

// Deadline bounds a wait. The zero value is no bound. Comparable.
type Deadline struct {
	after   time.Duration
	bounded bool
}

// DeadlineAfter is a wait of at most d, from 0.
func DeadlineAfter(d time.Duration) Deadline { return Deadline{d, true} }

// Bound returns the longest wait; bounded is false where there is none.
func (d Deadline) Bound() (longest time.Duration, bounded bool) { return d.after, d.bounded }

// String returns the bound as configuration spells it, "none" without one: the key
// is absent then.
func (d Deadline) String() string {
	if !d.bounded {
		return "none"
	}
	return formatDuration(d.after)
}

// before reports whether d ends earlier than other.
func (d Deadline) before(other Deadline) bool {
	return d.bounded && (!other.bounded || d.after < other.after)
}

func parseDeadline(text string) (Deadline, error) {
	d, err := parseDuration(text)
	if err != nil {
		return Deadline{}, err
	}
	return DeadlineAfter(d), nil
}
