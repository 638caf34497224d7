// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// progress is what a pull waits for, and what has come, or the same of one prefetch. The zero
// value is nothing. Safe for concurrent use.
type progress struct {
	waiting atomic.Int64 // reads under way
	bytes   atomic.Int64 // of the content of all fetches, also of those that failed or were thrown away

	mu    sync.Mutex
	taken []*progress // of prefetches for which the pull waits, or has waited
	urls  []*urlWait
}

// urlWait is the request of a url that has not ended. What a pull has waited for is known at once when
// that ends; reads that end by it come later.
type urlWait struct {
	attempt func() Attempt
	begun   time.Time
}

// waitFor takes note of a request that begins, and how to describe it.
func (p *progress) waitFor(attempt func() Attempt) *urlWait {
	w := &urlWait{attempt: attempt, begun: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.urls = append(p.urls, w)
	return w
}

func (p *progress) ended(w *urlWait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.urls = slices.DeleteFunc(p.urls, func(other *urlWait) bool { return other == w })
}

// waitsForURLs describes the requests of urls that have not ended, one of each host.
func (p *progress) waitsForURLs() (attempts []Attempt) {
	p.mu.Lock()
	urls, taken := slices.Clone(p.urls), slices.Clone(p.taken)
	p.mu.Unlock()
	for _, w := range urls {
		a := w.attempt()
		a.Elapsed = time.Since(w.begun)
		attempts = append(attempts, a)
	}
	for _, other := range taken {
		attempts = append(attempts, other.waitsForURLs()...)
	}
	slices.SortStableFunc(attempts, func(a, b Attempt) int { return strings.Compare(a.Host, b.Host) })
	return slices.CompactFunc(attempts, func(a, b Attempt) bool { return a.Host == b.Host })
}

// take adds what a prefetch waits for, and what has come to it: until then it is no progress
// of the pull, and a prefetch that hangs does not end that.
func (p *progress) take(prefetch *progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = append(p.taken, prefetch)
}

func (p *progress) state() (waiting, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting, bytes = p.waiting.Load(), p.bytes.Load()
	for _, other := range p.taken {
		waiting, bytes = waiting+other.waiting.Load(), bytes+other.bytes.Load()
	}
	return waiting, bytes
}

// read reads from an answer, or waits for one first.
func (p *progress) read(r io.Reader, b []byte) (int, error) {
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	n, err := r.Read(b)
	p.bytes.Add(int64(n))
	return n, err
}
