// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

// sight is what one controller has seen without a break. It ends with each look that
// fails: what has happened meanwhile nobody knows. Its times are of one clock, the
// controller's own.
type sight struct {
	since time.Time // of the first look
	ready map[string]readiness
}

// readiness is how long a node was Ready, as far as was seen.
type readiness struct {
	changed time.Time // by the node's clock, only to be compared
	since   time.Time // when it was first seen so
}

// look adds what was seen now.
func (s *sight) look(nodes []Node, now time.Time) {
	if s.since.IsZero() {
		s.since = now
	}
	was := s.ready
	s.ready = map[string]readiness{}
	for _, n := range nodes {
		if !n.Ready {
			continue
		}
		r := readiness{n.Changed, now}
		if before, seen := was[n.Name]; seen && before.changed.Equal(n.Changed) {
			r.since = before.since
		}
		s.ready[n.Name] = r
	}
}

// readyFor returns how long a node was seen Ready without a break; -1s where it is not.
func (s *sight) readyFor(name string, now time.Time) time.Duration {
	r, ready := s.ready[name]
	if !ready {
		return -time.Second
	}
	return now.Sub(r.since)
}
