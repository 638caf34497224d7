// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/redact"
)

// sayers are the hosts that have answered the checks of a session, by what they said. Safe for concurrent use.
type sayers struct {
	mu sync.Mutex
	of map[digest.Digest][]*host
}

// add takes note that a host has said that digest.
func (s *sayers) add(d digest.Digest, h *host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[digest.Digest][]*host{}
	}
	s.of[d] = append(s.of[d], h)
}

// who returns the hosts that have said that digest.
func (s *sayers) who(d digest.Digest) []*host {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.of[d])
}

// choosers are the redactors of the hosts that may have chosen the image with that digest, and so write what they
// were sent into its documents: the registry of the name, and who has said that the tag stands for it. Where
// nobody has in this session, that is whoever may. What a digest stands for nobody says. Others can only give the
// documents as they are.
func (s *session) choosers(d digest.Digest) (choosers []*redact.Redactor) {
	var said []*host
	if s.spec.Digest() == "" {
		if said = s.said.who(d); len(said) == 0 {
			said, _ = s.candidates()
		}
	}
	for _, h := range s.hosts {
		if h.Origin || slices.Contains(said, h) {
			choosers = append(choosers, h.chain.Redactor)
		}
	}
	return choosers
}
