// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import "slices"

// gathered is what texts are searched for. Of a session that is a lot, which its hosts choose: it is gathered once for
// all texts between two changes. Nobody changes it.
type gathered struct {
	changes      uint64   // that came before it; one that came while it was gathered may be in it, too
	sent, signed []string // what was sent, and what URLs are signed by
}

// gathered returns what r knows, and those that lead to it.
func (r *Redactor) gathered() *gathered {
	r.mu.Lock()
	last, leads := r.last, r.leads // which only get more
	r.mu.Unlock()
	own := r.changes.Load()
	changes := own
	if r.session != nil {
		changes += r.session.changes.Load()
	}
	for _, lead := range leads {
		changes += lead.changes.Load() // none ever falls: the sum is the same where each of them is
	}
	if last != nil && last.changes == changes {
		return last
	}
	next := &gathered{changes: changes}
	next.sent = slices.Clone(r.all().known())
	r.addChosen(next)
	for _, lead := range leads {
		lead.addChosen(next)
	}
	next.sent, next.signed = distinct(next.sent), distinct(next.signed)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changes.Load() == own { // else something of it may be forgotten for good
		r.last = next
	}
	return next
}

// addChosen adds the secrets that hosts choose.
func (r *Redactor) addChosen(to *gathered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to.sent, to.signed = append(to.sent, r.tokens.values()...), append(to.signed, r.queries.values()...)
}

// distinct are the values without those that are there before: each is looked for once.
func distinct(values []string) []string {
	seen := make(map[string]struct{}, len(values))
	return slices.DeleteFunc(values, func(v string) bool {
		before := len(seen)
		seen[v] = struct{}{}
		return len(seen) == before
	})
}
