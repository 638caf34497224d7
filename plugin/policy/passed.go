// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "slices"

// Mismatch is why a rule is not about a subject.
type Mismatch string

// The mismatches.
const (
	OtherImages     Mismatch = "images"     // none of its globs matches the image
	OtherNamespaces Mismatch = "namespaces" // none of its globs matches the namespace, or nobody knows that
)

// Passed is a rule that was tried before the one that decides.
type Passed struct {
	Rule *Rule // not to be changed
	Why  Mismatch
}

// Passed lists the rules that were tried for the subject and are not about it, the
// nearest to the one that decides first. The subject must be the one that the
// directives are for.
func (d *Effective) Passed(subject Subject) []Passed {
	if d.rules == nil {
		return nil
	}
	image := subject.spelled()
	var all []Passed
	for i := range d.rules.rules {
		r := &d.rules.rules[i]
		if r == d.Rule {
			break
		}
		why := OtherImages
		if r.matchesImage(&image) {
			why = OtherNamespaces
		}
		all = append(all, Passed{r, why})
	}
	slices.Reverse(all)
	return all
}
