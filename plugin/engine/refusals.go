// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync"

	"github.com/pullwarden/pullwarden/store"
)

// refusals lets requests that are under way know that a registry has refused
// the same repository to the same caller since: what it allowed them before is
// no proof any more. The zero value is ready.
type refusals struct {
	mu  sync.Mutex
	all map[refusalKey]*refusalCount
}

type refusalKey struct {
	repository string
	caller     store.Fingerprint
}

// refusalCount is kept as long as somebody watches it.
type refusalCount struct{ refusals, watchers int }

// refuse tells those who watch.
func (r *refusals) refuse(key refusalKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.all[key]; c != nil {
		c.refusals++
	}
}

// watch looks out for refusals from now on. It must be ended.
func (r *refusals) watch(key refusalKey) *refusalWatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[refusalKey]*refusalCount{}
	}
	c := r.all[key]
	if c == nil {
		c = &refusalCount{}
		r.all[key] = c
	}
	c.watchers++
	return &refusalWatch{refusals: r, key: key, count: c, seen: c.refusals}
}

// refusalWatch belongs to one request.
type refusalWatch struct {
	*refusals
	key   refusalKey
	count *refusalCount
	seen  int
}

// again forgets the refusals up to now: the registry is asked anew.
func (w *refusalWatch) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = w.count.refusals
}

// refused reports whether there was a refusal since.
func (w *refusalWatch) refused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count.refusals != w.seen
}

func (w *refusalWatch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count.watchers--; w.count.watchers == 0 {
		delete(w.all, w.key)
	}
}
