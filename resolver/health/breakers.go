// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// maxSuspects bounds the hosts that are suspected or in trouble at a time, and so the
// probes under way: tenants can name any number of hosts.
const maxSuspects = 256

// Breakers know the hosts in trouble. Only probes put a host into trouble, and take it
// out: one at a time for a host, in the background, going on at growing intervals as
// long as somebody wants to ask the host. Safe for concurrent use.
type Breakers struct {
	ctx    context.Context // of the probes
	cancel context.CancelFunc
	probes sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	all      map[Key]*suspect
	watchers map[Key]map[*watcher]struct{}
}

// watcher is told when a host gets into trouble.
type watcher struct{ tell func(*OpenError) }

// State is one host that is suspected or in trouble.
type State struct {
	Host  string        // scheme://host[:port]
	Open  bool          // it is in trouble; false: it is suspected
	Class failure.Class // of the trouble; None while it is suspected
	Until time.Time     // when it will be probed again; zero while it is suspected
}

// New returns Breakers. The caller closes them.
func New() *Breakers {
	b := &Breakers{all: map[Key]*suspect{}, watchers: map[Key]map[*watcher]struct{}{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Close ends all probes and waits for their end. Nothing is suspected any more.
func (b *Breakers) Close() {
	b.mu.Lock()
	b.closed = true
	for _, s := range b.all {
		b.remove(s)
	}
	b.mu.Unlock()
	b.cancel()
	b.probes.Wait()
}

// Trouble says why a host is not to be asked, nil if it may be. It counts as
// somebody's wish to ask it.
func (b *Breakers) Trouble(key Key) *OpenError {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.all[key]
	if !s.open() {
		return nil
	}
	s.asked = time.Now()
	return s.err()
}

// Blocked reports whether a host is in trouble.
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
// token server.
func (b *Breakers) Forget(key Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.all {
		if s.key == key || s.key.For == key.Host {
			b.remove(s)
		}
	}
}

// States lists the hosts that are suspected or in trouble, by name.
func (b *Breakers) States() []State {
	b.mu.Lock()
	defer b.mu.Unlock()
	states := make([]State, 0, len(b.all))
	for key, s := range b.all {
		state := State{Host: key.Host}
		if s.open() {
			state.Open, state.Class, state.Until = true, s.verdict.Class, s.until
		}
		states = append(states, state)
	}
	slices.SortFunc(states, func(a, b State) int { return cmp.Compare(a.Host, b.Host) })
	return states
}
