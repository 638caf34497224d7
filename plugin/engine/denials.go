// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"
	"sync"

	"github.com/pullwarden/pullwarden/internal/shared"
	"github.com/pullwarden/pullwarden/store"
)

// denials let requests that are under way know that hosts have refused the same
// repository to the same holder of proofs since: what those allowed before is no
// proof any more. The zero value is ready.
type denials struct {
	logs shared.Map[denialKey, *denialLog] // kept as long as somebody watches
}

type denialKey struct {
	repository string
	holder     store.Fingerprint
}

// denialLog holds the last refusal of each host, numbered as they came.
type denialLog struct {
	mu   sync.Mutex
	last uint64
	all  map[store.Refusal]uint64
}

func (l *denialLog) count() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *denialLog) since(seen uint64, own map[store.Refusal]uint64) (refusals []store.Refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r, number := range l.all {
		if number > seen && number != own[r] {
			refusals = append(refusals, r)
		}
	}
	return refusals
}

// deny tells those who watch.
func (d *denials) deny(key denialKey, refusals ...store.Refusal) {
	l, ok := d.logs.Peek(key)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range refusals {
		l.add(r)
	}
}

// add is to be called with the lock. It returns the number of the refusal.
func (l *denialLog) add(r store.Refusal) uint64 {
	l.last++
	l.all[r] = l.last
	return l.last
}

// watch looks out for denials from now on. It must be ended.
func (d *denials) watch(key denialKey) *denialWatch {
	l, _, release := d.logs.Acquire(key, func() *denialLog { return &denialLog{all: map[store.Refusal]uint64{}} })
	begun := l.count()
	return &denialWatch{holder: key.holder, log: l, begun: begun, seen: begun, release: func() { release() }}
}

// denialWatch belongs to one request.
type denialWatch struct {
	holder  store.Fingerprint
	log     *denialLog
	begun   uint64                   // the denials when the watch began
	seen    uint64                   // and when the registry was asked
	own     map[store.Refusal]uint64 // denials that the request has met with itself
	release func()
}

// restart forgets the denials up to now: the registry is asked anew.
func (w *denialWatch) restart() { w.seen = w.log.count() }

// deny tells the others who watch of refusals that the request has met with itself.
// One that another request has met with since as well keeps counting.
func (w *denialWatch) deny(refusals ...store.Refusal) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	if w.own == nil {
		w.own = map[store.Refusal]uint64{}
	}
	for _, r := range refusals {
		before := w.log.all[r]
		number := w.log.add(r)
		if before <= w.seen || before == w.own[r] {
			w.own[r] = number
		}
	}
}

// refusals returns the denials since, but for those that are known already.
func (w *denialWatch) refusals(known ...store.Refusal) []store.Refusal {
	return slices.DeleteFunc(w.log.since(w.seen, w.own), func(r store.Refusal) bool { return slices.Contains(known, r) })
}

// end ends the watch.
func (w *denialWatch) end() { w.release() }

// denialWatches are those of all holders for whom a request may write a proof.
type denialWatches []*denialWatch

// of returns the watch of a holder; nil for none.
func (all denialWatches) of(holder store.Fingerprint) *denialWatch {
	for _, w := range all {
		if w.holder == holder {
			return w
		}
	}
	return nil
}

func (all denialWatches) restart() {
	for _, w := range all {
		w.restart()
	}
}

// ended reports whether a proof of a holder for a repository was refused since.
func (all denialWatches) ended(holder store.Fingerprint, p store.Proof, repository string) bool {
	w := all.of(holder)
	return w != nil && slices.ContainsFunc(w.refusals(), func(r store.Refusal) bool { return r.Ends(holder, p, repository) })
}

// denied reports whether anybody was refused since the watches began.
func (all denialWatches) denied() bool {
	return slices.ContainsFunc(all, func(w *denialWatch) bool { return w.log.count() > w.begun })
}

// endedSinceBegun reports whether a proof that the host gave, to everybody or to another holder, was
// refused since the watches began, be it before the registry was asked.
func (all denialWatches) endedSinceBegun(toEverybody bool, host, repository string) bool {
	return slices.ContainsFunc(all, func(w *denialWatch) bool {
		return (w.holder == store.Anonymous) == toEverybody && slices.ContainsFunc(w.log.since(w.begun, nil),
			func(r store.Refusal) bool { return r.Ends(w.holder, store.Proof{By: host}, repository) })
	})
}

// copies are watches of the same denials. They end with these, or in their place.
func (all denialWatches) copies() (copies denialWatches) {
	for _, w := range all {
		other := *w
		other.own = maps.Clone(w.own)
		copies = append(copies, &other)
	}
	return copies
}

func (all denialWatches) end() {
	for _, w := range all {
		w.end()
	}
}
