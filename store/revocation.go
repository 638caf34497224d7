// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/images"

	"github.com/pullwarden/pullwarden/internal/registryname"
)

// place is where a revocation ends proofs: in a repository, by the one name of its registry, in all of a registry,
// or, where within is empty, in all of a namespace.
type place struct{ namespace, within string }

func placeOf(namespace, repository string) place {
	return place{namespace, registryname.Repository(repository)}
}

// registry is the place of all of its registry.
func (p place) registry() place {
	host, _, _ := strings.Cut(p.within, "/")
	return place{p.namespace, host}
}

// everywhere is the place of all of its namespace.
func (p place) everywhere() place { return place{namespace: p.namespace} }

// placesOf are those that an image of that name is in.
func placesOf(namespace, name string) []place {
	repository := place{namespace, repositoryOf(name)}
	if repository.within == "" {
		return []place{repository}
	}
	return []place{repository, repository.registry(), repository.everywhere()}
}

// repositoryOf returns the repository of which an image name is a tag or a digest, by the one name of its
// registry; "" for a name that is none.
func repositoryOf(name string) string {
	host, rest, _ := strings.Cut(name, "/")
	end := strings.IndexAny(rest, ":@")
	if end < 0 {
		return ""
	}
	return registryname.Repository(host + "/" + rest[:end])
}

// revocation takes the proofs of one holder away from the records of a repository, or those of
// everybody from all records in a place.
type revocation struct {
	place
	holder    Fingerprint
	refusals  []Refusal
	everybody bool
}

// same reports whether the other ends the same.
func (r revocation) same(other revocation) bool {
	return r.place == other.place && r.holder == other.holder && r.everybody == other.everybody &&
		slices.Equal(r.refusals, other.refusals)
}

// isOf reports whether it is about images of that name.
func (r revocation) isOf(namespace, name string) bool {
	return slices.Contains(placesOf(namespace, name), r.place)
}

// ends reports whether it takes away what a label says, which was written for that name.
func (r revocation) ends(label, value, name string) bool {
	f, _, ok := holderOf(label)
	return ok && value != "" && (r.everybody || f == r.holder && slices.ContainsFunc(r.refusals, func(refusal Refusal) bool {
		return refusal.Ends(f, decodeProof(value), name)
	}))
}

// left returns what the revocation leaves of labels that were written for that name.
func (r revocation) left(name string, all map[string]string) map[string]string {
	left := maps.Clone(all) // readers have it
	maps.DeleteFunc(left, func(label, value string) bool { return r.ends(label, value, name) })
	return left
}

// change is what the revocation changes of labels that were written for that name. A label beside which no
// digest stands proves nothing. It stays: it may be all that makes the image one that takes a proof.
func (r revocation) change(name string, all map[string]string) map[string]string {
	change := map[string]string{}
	for label, value := range all {
		if r.ends(label, value, name) && saysAnyDigest(all) {
			change[label] = ""
		}
	}
	return change
}

// takesFrom reports whether one of the marks has a proof that the revocation ends, also of a record that
// has moved.
func (r revocation) takesFrom(marks marks) bool {
	for k, mark := range marks {
		if r.isOf(k.namespace, k.name) && len(r.left(k.name, mark)) < len(mark) {
			return true
		}
	}
	return false
}

// revocations are several, by their places: a record costs no more than what is about it. They
// are never changed in place: readers have them.
type revocations map[place][]revocation

func (rs revocations) each() iter.Seq[revocation] {
	return func(yield func(revocation) bool) {
		for _, in := range rs {
			for _, r := range in {
				if !yield(r) {
					return
				}
			}
		}
	}
}

func (rs revocations) has(r revocation) bool { return slices.ContainsFunc(rs[r.place], r.same) }

// with returns them together with another one.
func (rs revocations) with(r revocation) revocations {
	all := maps.Clone(rs)
	if all == nil {
		all = revocations{}
	}
	all[r.place] = append(slices.Clip(all[r.place]), r)
	return all
}

// without returns them without those that are like others.
func (rs revocations) without(gone ...revocation) revocations {
	gone = slices.DeleteFunc(slices.Clone(gone), func(r revocation) bool { return !rs.has(r) })
	if len(gone) == 0 {
		return rs
	}
	all := maps.Clone(rs)
	for _, r := range gone {
		left := slices.DeleteFunc(slices.Clone(all[r.place]), r.same)
		if all[r.place] = left; len(left) == 0 {
			delete(all, r.place)
		}
	}
	return all
}

// about returns those that are about the labels of the record of k, each with the name for which these count as
// written. A proof that was copied to a record of another name is ended too, so that no copy back brings it back,
// and one that was given for another target, so that no move back does.
func (rs revocations) about(k key, all map[string]string) iter.Seq2[revocation, string] {
	return func(yield func(revocation, string) bool) {
		if len(rs) == 0 {
			return
		}
		var before []place
		for _, name := range []string{writtenFor(all), k.name} {
			in := placesOf(k.namespace, name)
			for _, p := range in {
				for _, r := range rs[p] {
					if !slices.Contains(before, p) && !yield(r, name) {
						return
					}
				}
			}
			before = in
		}
	}
}

// change is what the revocations change of the labels of the record of k.
func (rs revocations) change(k key, all map[string]string) map[string]string {
	change := map[string]string{}
	for r, name := range rs.about(k, all) {
		maps.Copy(change, r.change(name, all))
	}
	return change
}

// onDisk returns the holders of whom the revocations end proofs that records have, and those who have any
// that these are about.
func (rs revocations) onDisk(records []images.Image) (ended, had map[Fingerprint]bool) {
	ended, had = map[Fingerprint]bool{}, map[Fingerprint]bool{}
	for _, img := range records {
		for p := range rs {
			for r, name := range rs.about(keyOf(p.namespace, img), img.Labels) {
				ended[r.holder] = ended[r.holder] || len(r.change(name, img.Labels)) > 0
				had[r.holder] = had[r.holder] || img.Labels[LabelAccess+string(r.holder)] != "" || img.Labels[besideProof(r.holder)] != ""
			}
		}
	}
	return ended, had
}
