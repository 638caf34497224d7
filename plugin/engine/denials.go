// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"

	"github.com/pullwarden/pullwarden/internal/shared"
	"github.com/pullwarden/pullwarden/store"
)

// denials let requests that are under way know that a registry has denied the
// same repository to the same caller since: what it allowed them before is no
// proof any more. The zero value is ready.
type denials struct {
	counts shared.Map[denialKey, *atomic.Uint64] // kept as long as somebody watches
}

type denialKey struct {
	repository string
	caller     store.Fingerprint
}

// deny tells those who watch.
func (d *denials) deny(key denialKey) {
	if count, ok := d.counts.Peek(key); ok {
		count.Add(1)
	}
}

// watch looks out for denials from now on. It must be ended.
func (d *denials) watch(key denialKey) *denialWatch {
	count, _, release := d.counts.Acquire(key, func() *atomic.Uint64 { return new(atomic.Uint64) })
	return &denialWatch{count: count, seen: count.Load(), release: func() { release() }}
}

// denialWatch belongs to one request.
type denialWatch struct {
	count   *atomic.Uint64
	seen    uint64
	release func()
}

// restart forgets the denials up to now: the registry is asked anew.
func (w *denialWatch) restart() { w.seen = w.count.Load() }

// denied reports whether there was a denial since.
func (w *denialWatch) denied() bool { return w.count.Load() != w.seen }

// end ends the watch.
func (w *denialWatch) end() { w.release() }
