// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// recent are the secrets, of many, that were added last.
type recent struct {
	folded *simplelru.LRU[string, struct{}] // nil = none
	size   int                              // of them, in bytes
}

// add adds a secret, and drops those that were not added for longest where they are too many,
// or too long together; the last one stays. It reports whether anything has changed.
func (s *recent) add(maxSecrets, maxBytes int, secret string) bool {
	if s.folded == nil {
		s.folded, _ = simplelru.NewLRU(maxSecrets, func(dropped string, _ struct{}) { s.size -= len(dropped) })
	}
	secret = fold(secret)
	if short := strings.TrimRight(secret, padding); len(short) >= minSecret {
		secret = short // it is found with and without
	}
	if _, known := s.folded.Get(secret); known || len(secret) < minSecret {
		return false
	}
	s.folded.Add(secret, struct{}{})
	for s.size += len(secret); s.size > maxBytes && s.folded.Len() > 1; {
		s.folded.RemoveOldest()
	}
	return true
}

// values returns all of them, folded.
func (s *recent) values() []string {
	if s.folded == nil {
		return nil
	}
	return s.folded.Keys()
}

// keep drops all but that many, which were added last. It reports whether anything has changed.
func (s *recent) keep(secrets int) bool {
	dropped := s.folded != nil && s.folded.Len() > secrets
	for s.folded != nil && s.folded.Len() > secrets {
		s.folded.RemoveOldest()
	}
	return dropped
}
