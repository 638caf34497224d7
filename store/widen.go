// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"
)

// widened returns the places in which one revocation of everybody's proofs comes in the place of several, so that no more than
// maxRevocations are left. It is where most were refused that everybody's proofs end: a registry may be somebody's own, who has
// it refuse as often as it takes. First those of one repository become one, then those of its registry, and all of a namespace only
// where each registry has no more than one.
func widened(all []revocation) map[place]bool {
	wide, left := map[place]bool{}, len(all)
	if left <= maxRevocations {
		return wide
	}
	byNumber := make([][]*refusing, left+1) // the registries with so many
	registries := refusingOf(all)
	for _, r := range registries {
		byNumber[r.n] = append(byNumber[r.n], r)
	}
	for n := len(byNumber) - 1; n > 1; n-- {
		for _, r := range byNumber[n] { // which gets fewer with each step
			if left <= maxRevocations {
				return wide
			}
			wide[r.widen()] = true
			left -= n - r.n
			byNumber[r.n] = append(byNumber[r.n], r)
		}
	}
	namespaces := map[place]int{}
	for registry := range registries {
		namespaces[registry.everywhere()]++
	}
	for _, in := range mostFirst(namespaces) {
		if n := namespaces[in]; n > 1 && left > maxRevocations {
			wide[in] = true
			left -= n - 1
		}
	}
	return wide
}

// refusing is a registry, with how many revocations there are of it, and of each of its repositories.
type refusing struct {
	place
	n      int
	number map[place]int
	narrow []place // which have not become one, those with most first
}

func refusingOf(all []revocation) map[place]*refusing {
	registries := map[place]*refusing{}
	for _, r := range all {
		in := registries[r.registry()]
		if in == nil {
			in = &refusing{place: r.registry(), number: map[place]int{}}
			registries[in.place] = in
		}
		in.n++
		in.number[r.place]++
	}
	for _, r := range registries {
		r.narrow = mostFirst(r.number)
	}
	return registries
}

// widen makes those of one repository one, or of all where each has one, and returns where that is.
func (r *refusing) widen() place {
	if len(r.narrow) > 0 {
		if most := r.narrow[0]; r.number[most] > 1 {
			r.n -= r.number[most] - 1
			r.narrow = r.narrow[1:]
			return most
		}
	}
	r.n = 1
	return r.place
}

// mostFirst returns the places, that with the greatest number first.
func mostFirst(number map[place]int) []place {
	return slices.SortedFunc(maps.Keys(number), func(a, b place) int { return number[b] - number[a] })
}
