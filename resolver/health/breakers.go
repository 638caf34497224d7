// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

const (
	// maxSuspects bounds the hosts that are suspected or in trouble at a time, and that
	// references alone have named: tenants can name any number of hosts. It also bounds
	// the token servers of the operator's hosts, which these name.
	maxSuspects = 256
	// maxProbes bounds the probes of those that are under way. A host that cannot be probed
	// is nobody's suspect: requests find out by themselves.
	maxProbes = 64
)

// Breakers know the hosts in trouble. Only probes put a host into trouble: one at a time
// for a host, in the background. A probe takes it out again, or any request that is
// answered. It is probed again when somebody wants to ask it, and at no other time. Safe
// for concurrent use.
type Breakers struct {
	probes sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	running  int // probes under way that have one of maxProbes
	all      map[Key]*suspect
	watchers map[Key]map[*watcher]struct{}
	memory   *memory
}

// watcher is told when a host gets into trouble.
type watcher struct{ tell func(*OpenError) }

// State is one host that is suspected or in trouble. [View.Known] has it for hosts that
// are neither, too.
type State struct {
	Host  string        // scheme://host[:port]
	Named bool          // by the operator, as far as the configuration of hosts says; false: by references alone
	Open  bool          // it is in trouble; false: it is suspected
	Class failure.Class // of the trouble; None while it is suspected
	Since time.Time     // when it got into trouble; zero while it is suspected
	Until time.Time     // when it will be forgotten, unless somebody wants to ask it before; zero while it is suspected
}

// New returns Breakers. The caller closes them.
func New() *Breakers {
	return &Breakers{all: map[Key]*suspect{}, watchers: map[Key]map[*watcher]struct{}{}, memory: newMemory()}
}

// Close ends all probes and waits for their end. Nothing is suspected any more.
func (b *Breakers) Close() {
	b.mu.Lock()
	b.closed = true
	for _, s := range b.all {
		b.remove(s)
	}
	b.mu.Unlock()
	b.probes.Wait()
}

// Trouble says why a host is not to be asked, nil if it may be. It counts as
// somebody's wish to ask it: where the last verdict is not fresh, another probe begins.
func (b *Breakers) Trouble(key Key) *OpenError {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.all[key]
	if !s.open() || !b.wish(s) {
		return nil
	}
	return s.err()
}

// wish is somebody's wish to ask a host in trouble, which has it probed where the last verdict is not
// fresh. It reports whether the host is still known.
func (b *Breakers) wish(s *suspect) bool {
	s.asked = time.Now()
	return s.fresh() || b.ask(s)
}

// Await is Trouble for a check that has nothing else to ask: it waits for the probe where
// the last verdict is not fresh, within the check's Waits (nil = they have no bound), and not for
// one that has lasted for MaxWait. The probes of the next hosts begin with that wait. A host
// counts that has failed a request since that verdict, too: it is in trouble once the probe says
// so, or is silent.
func (b *Breakers) Await(ctx context.Context, key Key, waits Waits, next ...Key) *OpenError {
	_ = b.Trouble(key) //nolint:contextcheck // a probe is nobody's request
	r, open := b.lastVerdict(key)
	if r == nil {
		return open
	}
	b.want(next) //nolint:contextcheck // the same
	wait := MaxWait - time.Since(r.began)
	if waits != nil {
		wait = min(wait, time.Until(waits()))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-r.decided:
	case <-timer.C:
	case <-ctx.Done():
	}
	_, open = b.lastVerdict(key)
	return open
}

// want is somebody's wish to ask those hosts, and what they lead to.
func (b *Breakers) want(hosts []Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, s := range b.all {
		if slices.ContainsFunc(hosts, key.partOf) && s.open() {
			b.wish(s)
		}
	}
}

// lastVerdict says what the last probe of a host has found that has failed a request, nil if it
// has found nothing, and returns the next probe where that is not fresh.
func (b *Breakers) lastVerdict(key Key) (*run, *OpenError) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.all[key]
	switch {
	case s == nil || !s.failed || s.fails == 0:
		return nil, nil
	case s.fresh():
		return nil, s.err()
	}
	return s.run, s.err()
}

// Blocked reports whether a host is in trouble. It asks nobody.
func (b *Breakers) Blocked(key Key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all[key].open()
}

// Watch calls tell when the host gets into trouble, until stop is called.
func (b *Breakers) Watch(key Key, tell func(*OpenError)) (stop func()) {
	w := &watcher{tell}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watchers[key] == nil {
		b.watchers[key] = map[*watcher]struct{}{}
	}
	b.watchers[key][w] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.watchers[key], w)
		if len(b.watchers[key]) == 0 {
			delete(b.watchers, key)
		}
	}
}

// Forget forgets what is known of a host whose configuration has changed, and of its
// token server, also what their repositories and callers met with.
func (b *Breakers) Forget(key Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.all {
		if s.key.partOf(key) {
			b.remove(s)
		}
	}
	b.memory.forget(key)
}

// States lists the hosts that are suspected or in trouble, by name, each once.
func (b *Breakers) States() []State {
	b.mu.Lock()
	defer b.mu.Unlock()
	states := map[string]State{}
	for key, s := range b.all {
		state := s.state()
		was, seen := states[key.Host]
		if !seen || state.Open && !was.Open || state.Open == was.Open && state.Named {
			states[key.Host] = state
		}
	}
	return slices.SortedFunc(maps.Values(states), func(a, b State) int { return cmp.Compare(a.Host, b.Host) })
}

// state is that of a host, by its very key; false where it is neither suspected nor in
// trouble.
func (b *Breakers) state(key Key) (State, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.all[key]
	if s == nil {
		return State{}, false
	}
	return s.state(), true
}
