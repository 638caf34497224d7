// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"
)

const (
	// maxRevocations bounds how many revocations wait that came while the records could not be read: beyond that they take away
	// more than they have to, and whoever is refused adds one. Of all others, and of these once the records can be read, those wait
	// that take something away which is on disk: the records bound them, which keep the proofs of [maxProofs] holders each, and maxRefusals.
	maxRevocations = 1024
	// maxRefusals bounds how many different revocations of one holder wait in one place: they differ by which of the hosts
	// refused.
	maxRefusals = 16
)

// unite has one revocation of a holder in a place wait, where there are too many: it ends what each of them does, also
// what was given between them.
func (b *batch) unite() {
	groups := map[whose][]revocation{}
	for _, r := range b.all() {
		if !r.everybody {
			in := whose{r.place, r.holder}
			groups[in] = append(groups[in], r)
		}
	}
	united := map[whose]revocation{}
	for in, several := range groups {
		if len(several) > maxRefusals {
			united[in] = unionOf(in, several)
		}
	}
	if len(united) == 0 {
		return
	}
	*b = b.replaced(func(r revocation) (revocation, bool) {
		by, ok := united[whose{r.place, r.holder}]
		return by, ok && !r.everybody
	})
}

// unionOf is one revocation with the refusals of several of the same holder and place.
func unionOf(in whose, several []revocation) revocation {
	union := revocation{place: in.place, holder: in.holder, seen: true}
	for _, r := range several {
		union.seen = union.seen && r.seen
		for _, refusal := range r.refusals {
			if !slices.Contains(union.refusals, refusal) {
				union.refusals = append(union.refusals, refusal)
			}
		}
	}
	return union
}

// bound has revocations that could not be written end more, where there are too many: in doubt proofs end. Those of
// requests that are there just now do not count, nor those that are known to have something to end.
func (b *batch) bound() {
	wide := widened(slices.DeleteFunc(b.all(), func(r revocation) bool { return r.seen }))
	if len(wide) == 0 {
		return
	}
	*b = b.replaced(func(r revocation) (revocation, bool) {
		for _, to := range []place{r.everywhere(), r.registry(), r.place} {
			if wide[to] && !r.seen {
				return revocation{place: to, everybody: true}, true
			}
		}
		return revocation{}, false
	})
}

// replaced returns a batch in which others stand for some of the revocations, each in the place of several: it comes with the
// newest of these, and a yes that came after all of them counts. Readers have the maps of b, as what is being written: the
// batch has its own.
func (b batch) replaced(by func(revocation) (revocation, bool)) (out batch) {
	done, left := map[whose]bool{}, make([]revocations, len(b))
	for n, l := range slices.Backward(b) {
		left[n] = revocations{}
		for r := range l.revocations.each() {
			other, ok := by(r)
			in := whose{other.place, other.holder}
			switch {
			case !ok:
				left[n].put(r)
			case !done[in]:
				done[in] = true
				left[n].put(other)
			}
		}
	}
	for n, l := range b {
		out.lay(layer{left[n], maps.Clone(l.marks)})
	}
	return out
}
