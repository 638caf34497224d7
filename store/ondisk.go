// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "maps"

// onDisk are the revocations that end proofs which records on disk have, and those whose holders have any there.
type onDisk struct{ ended, had revocations }

func newOnDisk() onDisk { return onDisk{revocations{}, revocations{}} }

// note looks at the record of k, which has these labels on disk, and reports whether any of the revocations changes them.
func (d onDisk) note(rs revocations, k key, all map[string]string) (ends bool) {
	for r := range rs.ofHolders(k, all) {
		if !d.had.has(r) {
			d.had.put(r)
		}
	}
	for r := range rs.ending(k, all) {
		ends = true
		if !d.ended.has(r) {
			d.ended.put(r)
		}
	}
	return ends
}

// waitsFor reports whether the revocation has to be written, which comes over these marks: of a mark alone no crash brings
// anything back. But without the mark, what it replaces of the same holder would be there again.
func (d onDisk) waitsFor(r revocation, over batch) bool {
	return d.ended.has(r) || d.had.has(r) && over.gives(r)
}

// leaving returns what of the batch has to be tried again, as the records on disk are, in maps of its own: revocations that came
// while nobody could read them may have had nothing to end.
func (b batch) leaving(disk onDisk) (out batch) {
	for _, l := range b {
		left := revocations{}
		for r := range l.revocations.each() {
			if disk.waitsFor(r, out) {
				r.seen = true
				left.put(r)
			} else {
				out.withdraw(r)
			}
		}
		out.lay(layer{left, maps.Clone(l.marks)})
	}
	return out
}
