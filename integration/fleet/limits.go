// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"
)

// Limit is how many requests of some kinds a registry lets through in a window of time.
type Limit struct {
	Of        []kind
	PerClient bool // each address has its own; else all share it
	Requests  int
	Window    time.Duration
}

// limiter counts the requests of windows.
type limiter map[limiterKey]*window

type limiterKey struct {
	limit   int // its place among those of the profile
	address int
}

type window struct {
	began time.Time
	count int
}

// admit counts a request, and reports whether all limits let it through.
func (l limiter) admit(limits []Limit, k kind, c *client, now time.Time) bool {
	var counted []*window
	for i, limit := range limits {
		if !slices.Contains(limit.Of, k) {
			continue
		}
		key := limiterKey{limit: i}
		if limit.PerClient {
			key.address = c.address
		}
		w := l[key]
		if w == nil || now.Sub(w.began) >= limit.Window {
			w = &window{began: now}
			l[key] = w
		}
		if w.count >= limit.Requests {
			return false
		}
		counted = append(counted, w)
	}
	for _, w := range counted {
		w.count++
	}
	return true
}
