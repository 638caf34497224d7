// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"slices"
	"sync"
	"time"
)

// turnKey is the turn to fetch or unpack something for one source, or for all
// sources of one registry.
type turnKey struct {
	scope Scope
	of    level
	key   string
}

type level int

const (
	ofSource level = iota
	ofRegistry
)

// turns are those of all pulls. Who wants several takes them at once, or none:
// nobody has one while it waits for another, which may be held up by somebody who
// is no concern of those that wait for the first. The zero value is ready, and safe
// for concurrent use.
type turns struct {
	mu  sync.Mutex
	all map[turnKey]*turn
}

// turn is who has it, and who waits for it, in the order in which they came.
type turn struct {
	holder  *taker // nil = nobody
	since   time.Time
	waiting []*taker
}

// taker is somebody who takes some turns.
type taker struct {
	work    work
	wants   map[turnKey]bool // those that it waits for, or has; false = it goes on without the turn if that is not free
	lost    map[turnKey]bool // those that were taken over: it is at it still
	granted chan struct{}    // is closed once it has them
}

// take wants these turns for that work, and waits for all of them: see taker.granted. Whatever comes of it, leave must be called for each.
func (t *turns) take(of work, keys ...turnKey) *taker {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[turnKey]*turn{}
	}
	w := &taker{work: of, wants: map[turnKey]bool{}, lost: map[turnKey]bool{}, granted: make(chan struct{})}
	for _, key := range keys {
		if t.all[key] == nil {
			t.all[key] = &turn{}
		}
		t.all[key].waiting = append(t.all[key].waiting, w)
		w.wants[key] = true
	}
	t.grant(w)
	return w
}

// spare has somebody who waits go on without the turn if that is not free once the others are.
func (t *turns) spare(w *taker, key turnKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.waits() && w.wants[key] {
		w.wants[key] = false
		t.grant(w)
	}
}

// grant gives somebody who waits all that it wants, if what it waits for is free.
func (t *turns) grant(w *taker) {
	for key, waits := range w.wants {
		if waits && t.all[key].holder != nil {
			return
		}
	}
	for key := range w.wants {
		t.unlist(w, key)
		if of := t.all[key]; of.holder == nil {
			of.holder, of.since = w, time.Now()
		} else {
			delete(w.wants, key)
		}
	}
	close(w.granted)
}

// takeOver has somebody who waits get those of its turns in which others have a layer that they have unpacked, or have no place for, that long ago,
// and of the given ones those that others have had for that long and have not been at for that long, if it gets
// all that it waits for then. They go on without, and who waits for the same waits for the new one: so work is not begun once
// more by all of them together. Without given ones, those who came before go first.
func (t *turns) takeOver(w *taker, idle time.Duration, keys ...turnKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !w.waits() {
		return
	}
	var over []turnKey
	for key, waits := range w.wants {
		switch of := t.all[key]; {
		case !waits, of.holder == nil:
		case of.isStuck(idle), slices.Contains(keys, key) && of.isIdle(idle):
			over = append(over, key)
		default:
			return
		}
	}
	for _, key := range over {
		t.free(key)
	}
	if len(keys) == 0 {
		for _, key := range over {
			if t.all[key].holder == nil {
				t.pass(key)
			}
		}
	}
	if w.waits() {
		t.grant(w)
	}
}

// free has whoever has a turn go on without.
func (t *turns) free(key turnKey) {
	of := t.all[key]
	delete(of.holder.wants, key)
	of.holder.lost[key] = true
	of.holder = nil
}

// isIdle reports whether its holder has it, and has not been at it, for that long.
func (t *turn) isIdle(idle time.Duration) bool {
	return time.Since(t.since) >= idle && time.Since(t.holder.work.last()) >= idle
}

// isStuck reports whether its holder has unpacked a layer in it that long ago, and still not committed it, or has no place to unpack it.
// Where the layers of an image are unpacked at the same time, containerd commits none before it has begun with all.
func (t *turn) isStuck(idle time.Duration) bool {
	at, ok := t.holder.work.idleSince(t.since)
	return ok && time.Since(at) >= idle
}

// leave gives turns up: who has them passes them on, and who waits for them does so no longer. What it has not, or wants no more, does not count.
func (t *turns) leave(w *taker, keys ...turnKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		if w.lost[key] {
			t.passOver(w, key)
			continue
		}
		if _, ok := w.wants[key]; !ok {
			continue
		}
		delete(w.wants, key)
		if w.waits() {
			t.unlist(w, key)
		} else {
			t.pass(key)
		}
		if of := t.all[key]; of.holder == nil && len(of.waiting) == 0 {
			delete(t.all, key)
		}
	}
}

// passOver gives a turn that somebody has lost to the first who waits for it, once that one leaves: what the turn is for may be there, and then
// nobody needs to wait for whoever does it once more.
func (t *turns) passOver(w *taker, key turnKey) {
	delete(w.lost, key)
	if of := t.all[key]; of != nil && of.holder != nil && len(of.waiting) > 0 {
		t.free(key)
		t.pass(key)
	}
}

// pass gives a turn to the first who waits for it and for nothing else that is taken.
func (t *turns) pass(key turnKey) {
	of := t.all[key]
	of.holder = nil
	for _, next := range slices.Clone(of.waiting) {
		if t.grant(next); of.holder != nil {
			return
		}
	}
}

// unlist has somebody wait for a turn no more.
func (t *turns) unlist(w *taker, key turnKey) {
	of := t.all[key]
	of.waiting = slices.DeleteFunc(of.waiting, func(other *taker) bool { return other == w })
}

// isTaken reports whether a turn, for which somebody waits, is another's.
func (t *turns) isTaken(w *taker, key turnKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return w.waits() && t.all[key].holder != nil
}

// waits reports whether somebody has not got what it wants yet. The caller has the lock of the turns.
func (w *taker) waits() bool {
	select {
	case <-w.granted:
		return false
	default:
		return true
	}
}
