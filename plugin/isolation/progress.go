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
	queued    map[digest.Digest]time.Time   // that wait for a place, since then
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

// queues takes note that a layer is there, and waits to be unpacked, until entered is called.
func (p *progress) queues(d digest.Digest) (entered func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queued == nil {
		p.queued = map[digest.Digest]time.Time{}
	}
	p.queued[d] = time.Now()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.queued, d)
	}
}

// work is what a pull has turns for.
type work struct {
	*progress
	of        digest.Digest
	isContent bool // it is downloaded, and not unpacked
	below     int  // how often it is unpacked below, too
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

// idleSince returns since when the pull has unpacked it, for the first time since then, or waits for a place to unpack it; ok says that it
// does. An image may have a layer again, above others. containerd begins with the lower one: what comes after that may be the upper one, which has
// been unpacked when nothing is any more.
func (w work) idleSince(since time.Time) (at time.Time, ok bool) {
	if w.isContent {
		return at, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.unpacked[w.of]
	if w.below > 0 && len(all) <= w.below && w.unpacking[w.of] > 0 {
		return at, false
	}
	if at, ok := w.queued[w.of]; ok && w.unpacking[w.of] == 0 {
		if at.Before(since) {
			at = since
		}
		return at, true
	}
	i := slices.IndexFunc(all, func(at time.Time) bool { return !at.Before(since) })
	if i < 0 {
		return at, false
	}
	return all[max(i, min(w.below, len(all)-1))], true
}
