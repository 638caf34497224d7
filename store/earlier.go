// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"strings"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// earlier ends the key of the label beside that of a host's word, which is a check, the manifest
// that a check has read, or a proof. Its value is the time and host of another word, which counts
// where a rule does not believe the newer one. So no mirror's word takes the registry's away: it
// leaves there what it finds there, or else puts there what it replaces. The word of the registry
// itself counts wherever a mirror's does, and leaves nothing beside it.
const earlier = ".earlier"

// hasWord reports whether a label tells when a host said something: such have one beside them.
func hasWord(label string) bool {
	return isOfCheck(label) || strings.HasPrefix(label, LabelAccess) && !strings.HasSuffix(label, earlier)
}

// isOfCheck reports whether a label is of a check of the digest that [LabelVerifiedDigest] has.
func isOfCheck(label string) bool { return label == LabelVerifiedAt || label == LabelManifestRead }

// wordOf reads the word of a host that has that label, which is written as proofs are; zero for
// none.
func wordOf(all map[string]string, label string) Proof {
	word := decodeProof(all[label])
	if label == LabelVerifiedAt {
		word.By = all[LabelVerifiedBy]
	}
	return word
}

// withEarlier returns the mark together with what becomes of the words below that it replaces.
// Where it says itself what stands beside a word of its own, that is so: a mark of the registry
// has its own word there, too, which then goes away, as one of the same host always does.
func withEarlier(below, mark map[string]string) map[string]string {
	change := maps.Clone(mark)
	after := labels.Overlay(below, mark)
	for label := range mark {
		if !hasWord(label) {
			continue
		}
		beside := label + earlier
		_, said := mark[beside]
		before, now, kept := wordOf(below, label), wordOf(after, label), wordOf(after, beside)
		switch {
		case now.At.IsZero():
		case !kept.At.IsZero() && kept.sameHostAs(now):
			change[beside] = ""
		case kept.At.IsZero() && !said && !before.At.IsZero() && !before.sameHostAs(now):
			change[beside] = before.encode()
		}
	}
	return change
}
