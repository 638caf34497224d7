// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pullwarden/pullwarden/internal/registryname"
)

const (
	// maxProofs bounds the holders of whom an image record keeps proofs of access, besides [Anonymous].
	maxProofs = 32
	// unshownPlaces of these are for proofs that any secret gets, before those of which nobody knows
	// any more how they were given: these may be of secrets that are long gone.
	unshownPlaces = 8
)

// Proof says that a caller may have an image: since when, and who said so.
type Proof struct {
	At time.Time
	// By is the host that answered, host[:port], with its path behind that where it is a mirror at
	// the address of the registry of the name. Empty, as in labels of earlier versions, means a
	// mirror whose name is not known.
	By string
}

// GivenBy reports whether the host gave the proof, by whichever of its names.
func (p Proof) GivenBy(host string) bool {
	return p.By != "" && canonical(p.By) == canonical(host)
}

// canonical is the one name of who gave a proof. What is a path behind the host stays as it is.
func canonical(by string) string {
	host, _, _ := strings.Cut(by, "/")
	return registryname.Canonical(host) + by[len(host):]
}

// sameHostAs reports whether the same host gave both proofs, known or not.
func (p Proof) sameHostAs(other Proof) bool { return p.By == other.By || p.GivenBy(other.By) }

// Proofs returns the proofs of a holder, each of another host.
func (s *State) Proofs(f Fingerprint) (all []Proof) {
	for _, proofs := range []map[Fingerprint]Proof{s.Access, s.Earlier} {
		if proof, ok := proofs[f]; ok {
			all = append(all, proof)
		}
	}
	return all
}

// holderOf returns whose proof a label has, and whether it is one that another host gave before;
// false for a label that is none of a proof.
func holderOf(label string) (f Fingerprint, before, ok bool) {
	fingerprint, ok := strings.CutPrefix(label, LabelAccess)
	fingerprint, before = strings.CutSuffix(fingerprint, earlier)
	return Fingerprint(fingerprint), before, ok
}

// besideProof is the key of the label for the proof of another host that a holder has.
func besideProof(f Fingerprint) string { return LabelAccess + string(f) + earlier }

// give adds the proof to a mark; origin says that the registry of the name itself has given it.
func (p Proof) give(mark map[string]string, f Fingerprint, origin bool) {
	mark[LabelAccess+string(f)] = p.encode()
	if origin {
		mark[besideProof(f)] = p.encode()
	}
}

// Proved lists the holders for whom an answer of a registry is a proof, at the moment at
// which it is called: those who were refused before are not among them. It must not wait,
// nor use the store. nil = nobody.
type Proved func() []Fingerprint

// Holders asks for them.
func (p Proved) Holders() []Fingerprint {
	if p == nil {
		return nil
	}
	return p()
}

// encode returns the value of a label.
func (p Proof) encode() string {
	if p.By == "" || p.At.IsZero() {
		return encodeTime(p.At)
	}
	return encodeTime(p.At) + " " + p.By
}

// decodeProof is the inverse of encode. A value that cannot be read is a proof
// at no time.
func decodeProof(value string) Proof {
	at, by, _ := strings.Cut(value, " ")
	return Proof{decodeTime(at), by}
}

// trimProofs returns the labels without the proofs of holders beyond maxProofs: those go
// that any secret gets, and then those whose last use, or else whose giving, is longest ago; what lies
// in the future, by a clock that was ahead, tells nothing. So a secret that no host has looked at takes
// nobody else's place but that of another such one, and [unshownPlaces] at most of those of which
// nobody knows how they were given.
// Everybody's proof stays in any case: there is one, and who else has proved something by it would
// lose that.
func trimProofs(labels map[string]string, known map[Fingerprint]use, now time.Time) map[string]string {
	used, ways := map[Fingerprint]time.Time{}, map[Fingerprint]way{}
	for label, value := range labels {
		f, _, ok := holderOf(label)
		if !ok || value == "" || f == Anonymous {
			continue
		}
		proof := decodeProof(value)
		ways[f] = max(ways[f], known[f].way(proof.By))
		for _, at := range []time.Time{{}, proof.At, known[f].at} {
			if !at.Before(used[f]) && !at.After(now) {
				used[f] = at
			}
		}
	}
	if len(used) <= maxProofs {
		return labels
	}
	lastUsedFirst := slices.SortedFunc(maps.Keys(used), func(a, b Fingerprint) int {
		return cmp.Or(used[b].Compare(used[a]), cmp.Compare(a, b))
	})
	kept := keptOf(lastUsedFirst, ways)
	out := maps.Clone(labels)
	for _, f := range lastUsedFirst {
		if !slices.Contains(kept, f) {
			delete(out, LabelAccess+string(f))
			delete(out, besideProof(f))
		}
	}
	return out
}

// keptOf returns the holders whose proofs stay, of too many: see [trimProofs].
func keptOf(lastUsedFirst []Fingerprint, ways map[Fingerprint]way) []Fingerprint {
	var kept, rest []Fingerprint
	for _, f := range lastUsedFirst {
		if ways[f] == unshown {
			rest = append(rest, f)
		} else {
			kept = append(kept, f)
		}
	}
	kept = kept[:min(len(kept), maxProofs)]
	for i := len(kept) - 1; i >= 0 && maxProofs-len(kept) < min(len(rest), unshownPlaces); i-- {
		if ways[kept[i]] == unknown {
			kept = slices.Delete(kept, i, i+1)
		}
	}
	return append(kept, rest[:min(len(rest), maxProofs-len(kept))]...)
}
