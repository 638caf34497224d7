// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"
	"strings"

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

// placed is a place in which labels are, by the name for which they count as written.
type placed struct {
	place
	name string
}

// placesAbout are those that the labels of the record of k are in: first by the name that they were written for, and then by
// its own. A proof that was copied to a record of another name is ended too, so that no copy back brings it back,
// and one that was given for another target, so that no move back does.
func placesAbout(k key, all map[string]string) (in []placed) {
	for _, name := range []string{writtenFor(all), k.name} {
		for _, p := range placesOf(k.namespace, name) {
			if !slices.ContainsFunc(in, func(before placed) bool { return before.place == p }) {
				in = append(in, placed{p, name})
			}
		}
	}
	return in
}

// revocation takes the proofs of one holder away from the records of a repository, or those of
// everybody from all records in a place.
type revocation struct {
	place
	holder    Fingerprint // nobody's where it is everybody's
	refusals  []Refusal
	everybody bool

	// seen says that records on disk have been read since, which have something that it is about.
	seen bool
}

// whose proofs revocations end, and where.
type whose struct {
	place
	holder Fingerprint
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
	if !ok || value == "" || !r.everybody && f != r.holder {
		return false
	}
	if r.everybody {
		return true
	}
	proof := decodeProof(value)
	return slices.ContainsFunc(r.refusals, func(refusal Refusal) bool { return refusal.Ends(f, proof, name) })
}

// only returns those of the refusals that end the proof, of that proof alone as far as labels tell it from others.
func (r revocation) only(f Fingerprint, p Proof, name string) (only []Refusal) {
	if r.everybody {
		return []Refusal{{Host: p.By, Only: p}}
	}
	for _, refusal := range r.refusals {
		if refusal.Ends(f, p, name) {
			refusal.Only = p
			only = append(only, refusal)
		}
	}
	return only
}

// left returns what the revocation leaves of labels that were written for that name.
func (r revocation) left(name string, all map[string]string) map[string]string {
	left := maps.Clone(all) // readers have it
	maps.DeleteFunc(left, func(label, value string) bool { return r.ends(label, value, name) })
	return left
}

// takesFrom reports whether one of the marks has a proof that the revocation ends, also of a record that
// has moved.
func (r revocation) takesFrom(marks marks) bool {
	for k, mark := range marks {
		if !r.isOf(k.namespace, k.name) {
			continue
		}
		for label, value := range mark {
			if r.ends(label, value, k.name) {
				return true
			}
		}
	}
	return false
}
