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

// maxProofs bounds the proofs of access that an image record keeps.
const maxProofs = 32

// Proof says that a caller may have an image: since when, and who said so.
type Proof struct {
	At time.Time
	// By is the host that answered, host[:port]. Empty, as in labels of earlier
	// versions, means a mirror whose name is not known.
	By string
}

// GivenBy reports whether the host gave the proof, by whichever of its names.
func (p Proof) GivenBy(host string) bool {
	return p.By != "" && registryname.Canonical(p.By) == registryname.Canonical(host)
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

// trimProofs returns the labels without the proofs beyond maxProofs: those go
// whose last use, or else whose giving, is longest ago. lastUse returns the zero
// time for a proof whose use is not known.
func trimProofs(labels map[string]string, lastUse func(Fingerprint) time.Time) map[string]string {
	type proof struct {
		label string
		at    time.Time
	}
	var proofs []proof
	for label, value := range labels {
		fingerprint, ok := strings.CutPrefix(label, LabelAccess)
		if !ok || value == "" {
			continue
		}
		at := decodeProof(value).At
		if last := lastUse(Fingerprint(fingerprint)); last.After(at) {
			at = last
		}
		proofs = append(proofs, proof{label, at})
	}
	if len(proofs) <= maxProofs {
		return labels
	}
	slices.SortFunc(proofs, func(a, b proof) int {
		return cmp.Or(b.at.Compare(a.at), strings.Compare(a.label, b.label))
	})
	out := maps.Clone(labels)
	for _, p := range proofs[maxProofs:] {
		delete(out, p.label)
	}
	return out
}
