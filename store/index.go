// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
	"slices"
)

// index finds what of a batch, which does not change any more, is about a record: where each refusal ends a yes before it, there
// are as many layers, and a record costs no more than those of its own marks and of the holders whose proofs it has.
type index struct {
	layers  batch
	marked  map[key][]int
	revoked map[place]map[Fingerprint][]int
}

func (b batch) index() index {
	if len(b) == 0 {
		return index{}
	}
	x := index{b, map[key][]int{}, map[place]map[Fingerprint][]int{}}
	for n, l := range b {
		for k := range l.marks {
			x.marked[k] = append(x.marked[k], n)
		}
		for p, in := range l.revocations {
			if x.revoked[p] == nil {
				x.revoked[p] = map[Fingerprint][]int{}
			}
			for f := range in {
				x.revoked[p][f] = append(x.revoked[p][f], n)
			}
		}
	}
	return x
}

// of returns the layers that may change the record of k, which has these labels.
func (x index) of(k key, all map[string]string) (out batch) {
	numbers := slices.Clone(x.marked[k])
	if len(x.revoked) > 0 {
		numbers = append(numbers, x.revoking(k, all)...)
	}
	slices.Sort(numbers)
	for _, n := range slices.Compact(numbers) {
		out = append(out, x.layers[n])
	}
	return out
}

// revoking returns the layers, by their numbers, that may end proofs which the labels of the record of k have.
func (x index) revoking(k key, all map[string]string) (numbers []int) {
	var holders map[Fingerprint]bool
	for _, in := range placesAbout(k, all) { // a mark binds labels to the record's own name, whose places are among these
		revoked := x.revoked[in.place]
		if revoked == nil {
			continue
		}
		if holders == nil {
			holders = x.holders(k, all)
		}
		for f := range holders {
			numbers = append(numbers, revoked[f]...)
		}
	}
	return numbers
}

// holders are those whose proofs the record of k has, or gets by a mark, and the nobody to whom the revocations of everybody's belong.
func (x index) holders(k key, all map[string]string) map[Fingerprint]bool {
	holders := map[Fingerprint]bool{"": true}
	note := func(labels map[string]string) {
		for label := range labels {
			if f, _, ok := holderOf(label); ok {
				holders[f] = true
			}
		}
	}
	note(all)
	for _, n := range x.marked[k] {
		note(x.layers[n].marks[k])
	}
	return holders
}

// over returns the labels of the record of k with the batch laid over them.
func (x index) over(k key, all map[string]string) map[string]string {
	return x.of(k, all).over(k, all)
}

// ending returns the revocations that change the labels of the record of k, each with one of these.
func (x index) ending(k key, all map[string]string) iter.Seq2[revocation, endedLabel] {
	return func(yield func(revocation, endedLabel) bool) {
		for _, l := range x.of(k, all) {
			for r, of := range l.revocations.ending(k, all) {
				if !yield(r, of) {
					return
				}
			}
		}
	}
}

// revokes reports whether a revocation changes the labels of the record of k.
func (x index) revokes(k key, all map[string]string) bool {
	for range x.ending(k, all) {
		return true
	}
	return false
}

// narrowed returns revocations of the very proofs that the batch ends of records: a yes that has come after it counts on all
// others, by whichever way. They go on to be about the whole repository: a record may get another name.
func (x index) narrowed(records map[key]map[string]string) (out batch) {
	refusals := map[whose][]Refusal{}
	for k, all := range records {
		for r, of := range x.ending(k, all) {
			f, _, _ := holderOf(of.label)
			in := whose{r.place, f}
			for _, refusal := range r.only(f, decodeProof(all[of.label]), of.name) {
				if !slices.Contains(refusals[in], refusal) {
					refusals[in] = append(refusals[in], refusal)
				}
			}
		}
	}
	for in, refusals := range refusals {
		out.revoke(revocation{place: in.place, holder: in.holder, refusals: refusals, seen: true})
	}
	return out
}

// markedNames returns the names of a namespace's records that have a mark.
func (x index) markedNames(namespace string) map[string]bool {
	names := map[string]bool{}
	for k := range x.marked {
		if k.namespace == namespace {
			names[k.name] = true
		}
	}
	return names
}
