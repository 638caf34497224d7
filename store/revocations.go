// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
	"maps"
	"slices"
)

// revocations are several, by their places and holders: a record costs no more than what is about its labels, however many others
// are revoked in its repository. Those of one place are never changed in place: readers have them.
type revocations map[place]map[Fingerprint][]revocation

func (rs revocations) each() iter.Seq[revocation] {
	return func(yield func(revocation) bool) {
		for _, in := range rs {
			for _, of := range in {
				for _, r := range of {
					if !yield(r) {
						return
					}
				}
			}
		}
	}
}

func (rs revocations) has(r revocation) bool {
	return slices.ContainsFunc(rs[r.place][r.holder], r.same)
}

// with adds another one, and returns them as append does.
func (rs revocations) with(r revocation) revocations {
	if rs == nil {
		rs = revocations{}
	}
	if in := maps.Clone(rs[r.place]); in != nil {
		in[r.holder] = slices.Clip(in[r.holder])
		rs[r.place] = in
	}
	rs.put(r)
	return rs
}

// put adds another one in place, where nobody else has what there is of its place.
func (rs revocations) put(r revocation) {
	if rs[r.place] == nil {
		rs[r.place] = map[Fingerprint][]revocation{}
	}
	in := rs[r.place]
	in[r.holder] = append(in[r.holder], r)
}

// without takes those that are like others away, and returns the rest.
func (rs revocations) without(gone ...revocation) revocations {
	for _, r := range gone {
		if !rs.has(r) {
			continue
		}
		in := maps.Clone(rs[r.place])
		rs[r.place] = in
		if in[r.holder] = slices.DeleteFunc(slices.Clone(in[r.holder]), r.same); len(in[r.holder]) == 0 {
			delete(in, r.holder)
		}
		if len(in) == 0 {
			delete(rs, r.place)
		}
	}
	return rs
}

// about returns those of some places, for readers: they do not change any more.
func (rs revocations) about(places []placed) (about revocations) {
	for _, in := range places {
		if of, ok := rs[in.place]; ok {
			if about == nil {
				about = revocations{}
			}
			about[in.place] = of
		}
	}
	return about
}

// ending returns those that end proofs which the labels of the record of k have, each with the label, and the name
// for which that counts as written. A label beside which no digest stands proves nothing. It stays: it may be all
// that makes the image one that takes a proof.
func (rs revocations) ending(k key, all map[string]string) iter.Seq2[revocation, endedLabel] {
	return func(yield func(revocation, endedLabel) bool) {
		if !saysAnyDigest(all) {
			return
		}
		for r, of := range rs.ofHolders(k, all) {
			if r.ends(of.label, all[of.label], of.name) && !yield(r, of) {
				return
			}
		}
	}
}

// ofHolders returns those that are about holders of whom the record of k has proofs, be it that they end none of these, each with the label, and the
// name for which that counts as written.
func (rs revocations) ofHolders(k key, all map[string]string) iter.Seq2[revocation, endedLabel] {
	return func(yield func(revocation, endedLabel) bool) {
		if len(rs) == 0 {
			return
		}
		for _, in := range placesAbout(k, all) {
			if rs[in.place] == nil {
				continue
			}
			for label, value := range all {
				if value == "" {
					continue
				}
				for r := range rs.ofLabel(in.place, label) {
					if !yield(r, endedLabel{label, in.name}) {
						return
					}
				}
			}
		}
	}
}

// endedLabel is a label whose proof ends, and the name for which it counts as written.
type endedLabel struct{ label, name string }

// ofLabel returns those of the place that may end what a label says.
func (rs revocations) ofLabel(in place, label string) iter.Seq[revocation] {
	return func(yield func(revocation) bool) {
		f, _, ok := holderOf(label)
		if !ok {
			return
		}
		for _, holder := range []Fingerprint{f, ""} { // everybody's are nobody's own
			for _, r := range rs[in][holder] {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// change is what the revocations change of the labels of the record of k.
func (rs revocations) change(k key, all map[string]string) map[string]string {
	change := map[string]string{}
	for _, of := range rs.ending(k, all) {
		change[of.label] = ""
	}
	return change
}
