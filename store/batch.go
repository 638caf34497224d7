// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// batch is what waits to be written in one transaction, the oldest layer first. A mark is of one
// record. A revocation is of whichever records have a proof that it ends at the moment at which it is
// written: until then other clients may move them, or copy them.
type batch []layer

// layer has revocations, and marks that are newer than these.
type layer struct {
	revocations revocations
	marks       marks
}

// add lays a mark over what waits.
func (b *batch) add(k key, mark map[string]string) {
	if len(*b) == 0 {
		*b = batch{{marks: marks{}}}
	}
	(*b)[len(*b)-1].marks.add(k, mark)
}

// revoke lays a revocation over what waits.
func (b *batch) revoke(r revocation) {
	b.forget(r) // nothing that it ends is left by an earlier one like it
	if last := len(*b) - 1; last >= 0 && !r.takesFrom((*b)[last].marks) {
		(*b)[last].revocations = (*b)[last].revocations.with(r)
	} else {
		*b = append(*b, layer{revocations{}.with(r), marks{}})
	}
}

// gives reports whether the marks have a proof that the revocation ends.
func (b batch) gives(r revocation) bool {
	return slices.ContainsFunc(b, func(l layer) bool { return r.takesFrom(l.marks) })
}

// withdraw takes the proofs that the revocation ends out of the marks.
func (b batch) withdraw(r revocation) {
	for _, l := range b {
		for k, mark := range l.marks {
			if r.isOf(k.namespace, k.name) {
				l.marks[k] = r.left(k.name, mark)
			}
		}
	}
}

// forget leaves revocations out.
func (b *batch) forget(all ...revocation) {
	if !slices.ContainsFunc(all, b.waits) {
		return
	}
	var out batch
	for _, l := range *b {
		out.lay(layer{l.revocations.without(all...), l.marks})
	}
	*b = out
}

// waits reports whether one like it is there.
func (b batch) waits(r revocation) bool {
	return slices.ContainsFunc(b, func(l layer) bool { return l.revocations.has(r) })
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
		for r := range l.revocations.each() {
			b.revoke(r)
		}
		for k, mark := range l.marks {
			b.add(k, mark)
		}
	}
}

// of returns what may change the record of k, which has these labels, for readers: it does not change any more.
func (b batch) of(k key, all map[string]string) (out batch) {
	if len(b) == 0 {
		return nil
	}
	places := placesAbout(k, all)
	for _, l := range b {
		about := layer{revocations: l.revocations.about(places)}
		if mark := l.marks[k]; mark != nil {
			about.marks = marks{k: mark}
		}
		if len(about.revocations) > 0 || len(about.marks) > 0 {
			out = append(out, about)
		}
	}
	return out
}

// clone returns the batch for readers: it does not change any more.
func (b batch) clone() (out batch) {
	for _, l := range b {
		out = append(out, layer{maps.Clone(l.revocations), maps.Clone(l.marks)})
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
	if change := l.revocations.change(k, all); len(change) > 0 {
		all = labels.Overlay(all, change)
	}
	return marked(k, all, l.marks[k])
}

// all are the revocations.
func (b batch) all() (all []revocation) {
	for _, l := range b {
		all = slices.AppendSeq(all, l.revocations.each())
	}
	return all
}

// revoking are the namespaces in which something is revoked.
func (b batch) revoking() map[string]bool {
	in := map[string]bool{}
	for _, l := range b {
		for p := range l.revocations {
			in[p.namespace] = true
		}
	}
	return in
}
