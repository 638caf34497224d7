// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"sync/atomic"

	"github.com/pullwarden/pullwarden/resolver/pool"
)

// Set is the hosts of one registry name as they were configured at one time. Its
// sessions share it; it does not change.
type Set struct {
	name  string // of the registry, by which it is asked
	named bool   // the operator has a directory for this very name
	hosts []Host
	pools []*pool.Pool
	seen  atomic.Pointer[hostDirState] // what it is made of

	users    int         // guarded by the lock of Cache
	retired  atomic.Bool // nobody is to begin anything with it
	replaced atomic.Bool // another has taken its place
}

// Hosts returns the hosts in their order. The list must not be changed.
func (s *Set) Hosts() []Host { return s.hosts }

// Name is the name of the registry, by which it is asked.
func (s *Set) Name() string { return s.name }

// Spelled is that name where it is another spelling than the registry's one, which all spellings
// have that are not configured themselves; else "".
func (s *Set) Spelled() string {
	if s.name == oneName(s.name) {
		return ""
	}
	return s.name
}

// Named reports whether the operator has a host directory for this very name: _default
// is one for whatever references name.
func (s *Set) Named() bool { return s.named }

// Addresses returns the hosts by the addresses at which they are asked, host[:port].
func (s *Set) Addresses() []string {
	addresses := make([]string, len(s.hosts))
	for i, h := range s.hosts {
		addresses[i] = h.Host
	}
	return addresses
}

// Retired reports whether another set has taken the place of this one, or
// nobody may use it any more. Sessions that have it may go on with it.
func (s *Set) Retired() bool { return s.retired.Load() }

// Replaced reports whether another set has taken the place of this one, since the configuration has
// changed.
func (s *Set) Replaced() bool { return s.replaced.Load() }

func (s *Set) closeIdle() {
	for _, p := range s.pools {
		p.CloseIdleConnections()
	}
}
