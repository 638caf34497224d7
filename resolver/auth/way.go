// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Way returns an Authorizer with the same tokens for one of the ways in which a check asks:
// each doubts by itself, once, what was presumed, however the others have fared with it.
func (a *Authorizer) Way() *Authorizer {
	return &Authorizer{options: a.options, shared: a.shared, began: a.began}
}

// shared is what the authorizers of one session and host have in common. Safe for
// concurrent use.
type shared struct {
	mu         sync.Mutex
	tokens     *simplelru.LRU[string, *tokens] // by address: a redirect's target may want tokens too
	first      *caller                         // whose first answer the session awaits on behalf of others; nil = none
	challenged bool                            // the host has said itself, in a check, what it wants
	late       bool                            // a renewal has not come in time: the session waits for none any more
}

// hasWaited reports whether the session has waited for a renewal in vain.
func (s *shared) hasWaited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late
}

// waited takes note that it has.
func (s *shared) waited() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = true
}

// awaits reports whether the host's first answer is the session's own.
func (s *shared) awaits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first != nil
}

func (s *shared) await(first *caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = first
}

func (s *shared) isChallenged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.challenged = true
}

// finish returns what is known at the end of a check, and forgets it.
func (s *shared) finish() (first *caller, challenged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, challenged = s.first, s.challenged
	s.first, s.challenged = nil, false
	return first, challenged
}
