// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health knows which hosts are in trouble, so that not every request has
// to find out by itself.
package health

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/internal/registryname"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// maxBreakers bounds the hosts in trouble at a time: tenants can name any number
// of them.
const maxBreakers = 1024

// Breakers know the hosts in trouble by their keys, which are scheme://host:port,
// wherever they come from: hosts.toml, a token server's realm, a redirect. The
// zero value is ready; safe for concurrent use.
type Breakers struct {
	mu  sync.Mutex
	seq uint64              // counts openings
	all map[string]*breaker // only hosts in trouble
}

// State is one host in trouble.
type State struct {
	Host  string        // scheme://host[:port]
	Open  bool          // false: it has failed, but not often enough in a row
	Class failure.Class // of the failure that opened it; None while it is closed
	Until time.Time     // when it will be asked again; zero while it is closed
}

// Key is the key of a host, the same for all of its names.
func Key(scheme, host string) string { return scheme + "://" + registryname.Address(scheme, host) }

// Admit gives a permit for a host, or says why there is none. When a breaker has
// been open for long enough, one caller at a time gets a permit. The caller
// releases it.
func (b *Breakers) Admit(key string) (*Permit, *OpenError) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &Permit{breakers: b, key: key, seq: b.seq}
	br := b.all[key]
	if br.blocked() {
		return nil, &OpenError{Class: br.class, Until: br.until, reason: br.reason}
	}
	if br != nil && br.opened > 0 {
		br.probe = p
	}
	return p, nil
}

// Force gives a permit in any case: there is nothing else to use. The caller
// releases it.
func (b *Breakers) Force(key string) *Permit {
	if p, open := b.Admit(key); open == nil {
		return p
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return &Permit{breakers: b, key: key, seq: b.seq}
}

// Blocked reports whether Admit would give no permit.
func (b *Breakers) Blocked(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all[key].blocked()
}

// Forget closes the breaker of a host whose configuration has changed.
func (b *Breakers) Forget(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, key)
}

// States lists the hosts in trouble, by name.
func (b *Breakers) States() []State {
	b.mu.Lock()
	defer b.mu.Unlock()
	states := make([]State, 0, len(b.all))
	for key, br := range b.all {
		states = append(states, State{Host: key, Open: br.opened > 0, Class: br.class, Until: br.until})
	}
	slices.SortFunc(states, func(a, b State) int { return cmp.Compare(a.Host, b.Host) })
	return states
}

// of returns the breaker of a host, which must be in trouble now.
func (b *Breakers) of(key string) *breaker {
	if br := b.all[key]; br != nil {
		return br
	}
	if b.all == nil {
		b.all = map[string]*breaker{}
	}
	if len(b.all) >= maxBreakers {
		b.drop()
	}
	br := &breaker{}
	b.all[key] = br
	return br
}

// drop makes room: it forgets the host that will be asked again first, since
// that is the one that costs least to find out again. An LRU would forget the host
// that has been in trouble for longest.
func (b *Breakers) drop() {
	var first string
	for key, br := range b.all {
		if first == "" || br.until.Before(b.all[first].until) {
			first = key
		}
	}
	delete(b.all, first)
}
