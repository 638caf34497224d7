// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"time"
)

// cost is what one measured thing took.
type cost struct {
	took        time.Duration
	requests    int // that the registries saw
	connections int // that the registries accepted
}

// costs are those of several runs.
type costs []cost

// median is that of each field by itself.
func (c costs) median() cost {
	return cost{
		took:        medianOf(c, func(c cost) time.Duration { return c.took }),
		requests:    medianOf(c, func(c cost) int { return c.requests }),
		connections: medianOf(c, func(c cost) int { return c.connections }),
	}
}

// slowest is the longest time.
func (c costs) slowest() time.Duration {
	return slices.MaxFunc(c, func(a, b cost) int { return cmp.Compare(a.took, b.took) }).took
}

// medianOf returns the median of f, of an even number the higher one; the zero
// value of none.
func medianOf[T any, N cmp.Ordered](all []T, f func(T) N) N {
	values := make([]N, 0, len(all))
	for _, v := range all {
		values = append(values, f(v))
	}
	slices.Sort(values)
	if len(values) == 0 {
		var zero N
		return zero
	}
	return values[len(values)/2]
}
