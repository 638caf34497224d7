// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
)

// progress knows what a pull is at. The zero value is ready, and safe for concurrent use.
type progress struct {
	mu        sync.Mutex
	unpacking map[digest.Digest]int
	unpacked  map[digest.Digest][]time.Time // when it ended, each time
	received  map[digest.Digest]time.Time   // the last bytes
}

// receives takes note that some of a content has come. containerd hands on a MiB at a time, so that a trickle is not much.
func (p *progress) receives(d digest.Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.received == nil {
		p.received = map[digest.Digest]time.Time{}
	}
	p.received[d] = time.Now()
}

// unpacks takes note that a layer is being unpacked, until ended is called.
func (p *progress) unpacks(d digest.Digest) (ended func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unpacking == nil {
		p.unpacking, p.unpacked = map[digest.Digest]int{}, map[digest.Digest][]time.Time{}
	}
	p.unpacking[d]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.unpacking[d]--; p.unpacking[d] == 0 {
			delete(p.unpacking, d)
		}
		p.unpacked[d] = append(p.unpacked[d], time.Now())
	}
}

// work is what a pull has turns for.
type work struct {
	*progress
	of        digest.Digest
	isContent bool // it is downloaded, and not unpacked
}

// last returns when the pull was last at it; zero = never.
func (w work) last() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unpacking[w.of] > 0 {
		return time.Now()
	}
	return w.received[w.of]
}

// unpackedSince returns when the pull had unpacked it for the first time since then: an image may have a layer again, above others. ok says
// that it has.
func (w work) unpackedSince(since time.Time) (at time.Time, ok bool) {
	if w.isContent {
		return at, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.unpacked[w.of]
	if i := slices.IndexFunc(all, func(at time.Time) bool { return !at.Before(since) }); i >= 0 {
		return all[i], true
	}
	return at, false
}
