// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// maxRevocations bounds how many revocations wait for another try: beyond that they take the proofs of
// everybody. Those wait that take something away, as far as the records can be read.
const maxRevocations = 1024

// batch is what waits to be written in one transaction, the oldest layer first. A mark is of one
// record. A revocation is of whichever records have a proof that it ends at the moment at which it is
// written: until then other clients may move them, or copy them.
type batch []layer

// layer has revocations, and marks that are newer than these.
type layer struct {
	revocations []revocation // never changed in place: readers have it
	marks       marks
}

// add lays a mark over what waits.
func (b *batch) add(k key, mark map[string]string) {
	if len(*b) == 0 {
		*b = batch{{marks: marks{}}}
	}
	(*b)[len(*b)-1].marks.add(k, mark)
}

// revoke lays a revocation over what waits. It reports whether it takes anything out of the marks.
func (b *batch) revoke(r revocation) (takes bool) {
	b.forget(r) // nothing that it ends is left by an earlier one like it
	takes = slices.ContainsFunc(*b, func(l layer) bool { return r.takesFrom(l.marks) })
	if last := len(*b) - 1; last >= 0 && !r.takesFrom((*b)[last].marks) {
		(*b)[last].revocations = append(slices.Clip((*b)[last].revocations), r)
	} else {
		*b = append(*b, layer{[]revocation{r}, marks{}})
	}
	return takes
}

// bound has everybody's proofs end where too many revocations could not be written: in doubt they end. Those of
// requests that are there just now, most of which take nothing away, do not count.
func (b *batch) bound() {
	var all []revocation
	for _, l := range *b {
		all = append(all, l.revocations...)
	}
	if len(all) <= maxRevocations {
		return
	}
	var out batch
	for _, l := range *b {
		out.lay(layer{nil, l.marks})
	}
	*b = append(out, layer{ofEverybody(all), marks{}})
}

// forget leaves a revocation out.
func (b *batch) forget(r revocation) {
	var out batch
	for _, l := range *b {
		out.lay(layer{slices.DeleteFunc(slices.Clone(l.revocations), r.same), l.marks})
	}
	*b = out
}

// lay adds a layer, which is one with that below it where nothing is revoked in between.
func (b *batch) lay(l layer) {
	switch {
	case len(l.revocations) > 0:
		*b = append(*b, l)
	default:
		for k, mark := range l.marks {
			b.add(k, mark)
		}
	}
}

// then lays a newer batch over this one.
func (b *batch) then(newer batch) {
	for _, l := range newer {
		for _, r := range l.revocations {
			b.revoke(r)
		}
		for k, mark := range l.marks {
			b.add(k, mark)
		}
	}
}

// of returns what may change the record of k, for readers: it does not change any more.
func (b batch) of(k key) (out batch) {
	for _, l := range b {
		out = append(out, layer{l.revocations, marks{k: l.marks[k]}})
	}
	return out
}

// clone returns the batch for readers: it does not change any more.
func (b batch) clone() (out batch) {
	for _, l := range b {
		out = append(out, layer{l.revocations, maps.Clone(l.marks)})
	}
	return out
}

// over returns the labels of the record of k with the batch laid over them.
func (b batch) over(k key, all map[string]string) map[string]string {
	for _, l := range b {
		all = l.over(k, all)
	}
	return all
}

func (l layer) over(k key, all map[string]string) map[string]string {
	if len(l.revocations) > 0 {
		all = labels.Overlay(all, l.revoked(k, all))
	}
	return marked(k, all, l.marks[k])
}

// revoked is what the revocations change of the labels of the record of k.
func (l layer) revoked(k key, all map[string]string) map[string]string {
	change := map[string]string{}
	for _, r := range l.revocations {
		maps.Copy(change, r.change(k, all))
	}
	return change
}

// revokes reports whether a revocation changes the labels of the record of k.
func (b batch) revokes(k key, all map[string]string) bool {
	return slices.ContainsFunc(b, func(l layer) bool { return len(l.revoked(k, all)) > 0 })
}

// removals are the proofs that the batch takes away from the labels of the record of k.
func (b batch) removals(k key, all map[string]string) map[string]string {
	var changes []map[string]string
	for _, l := range b {
		changes = append(changes, l.revoked(k, all), l.marks[k])
		all = l.over(k, all)
	}
	return revocations(changes...)
}

// revoking are the namespaces in which something is revoked.
func (b batch) revoking() map[string]bool {
	in := map[string]bool{}
	for _, l := range b {
		for _, r := range l.revocations {
			in[r.namespace] = true
		}
	}
	return in
}
