// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"io"
	"slices"
	"sync"

	"github.com/containerd/containerd/v2/core/transfer"
)

const (
	// maxSmall bounds, in bytes, a layer that needs no place among the downloads of a pull: a
	// stream of HTTP/2 has room for that much.
	maxSmall = 4 << 20
	// smallRoom bounds, in bytes, the small layers that a pull downloads at a time.
	smallRoom = 8 << 20
	// leastRoom is what each of them counts for at least: there are no more than 16, for which
	// plugin/isolation has places.
	leastRoom = smallRoom / 16
)

// downloads bounds what a pull downloads at a time. containerd's own bound is for requests of
// any kind; each layer beyond it costs a round trip, since it is asked for when another one
// has come. Here small layers are bounded by their bytes, as long as they come by HTTP/2: they
// share a connection then. Safe for concurrent use.
type downloads struct {
	mu     sync.Mutex
	places int   // that are free
	alone  bool  // there is one place alone, for small layers too
	shared bool  // the last small answer has come by HTTP/2
	small  int64 // bytes of the small layers that are being downloaded
	queue  []*waiter
}

// waiter waits until it may download something.
type waiter struct {
	of    *fetch
	room  int64 // that it needs as a small layer; 0 = it is none
	enter chan struct{}
	leave func() // gives back what it has got; nil = it has got nothing
}

// newDownloads returns what bounds the downloads of a pull in the place of the bound that the
// options set, and options without that. It returns nil where layers are fetched in
// chunks, which are bounded each, and where there is no bound.
func newDownloads(options []transfer.ImageResolverOption) (*downloads, []transfer.ImageResolverOption) {
	var limits transfer.ImageResolverOptions
	for _, set := range options {
		set(&limits)
	}
	places := limits.Performances.MaxConcurrentDownloads
	if limits.DownloadLimiter == nil || places <= 0 || limits.Performances.ConcurrentLayerFetchBuffer > 0 {
		return nil, options
	}
	return &downloads{places: places, alone: places == 1}, append(slices.Clone(options), transfer.WithDownloadLimiter(nil))
}

// acquire waits until something may be downloaded. The caller calls leave when it has been. The
// error is the context's.
func (d *downloads) acquire(ctx context.Context, of *fetch) (leave func(), err error) {
	w := &waiter{of: of, enter: make(chan struct{})}
	if !of.document {
		w.room = roomOf(of.size)
	}
	d.mu.Lock()
	d.queue = append(d.queue, w)
	d.admit()
	d.mu.Unlock()
	select {
	case <-w.enter:
		return w.leave, nil
	case <-ctx.Done():
	}
	d.mu.Lock()
	d.queue = slices.DeleteFunc(d.queue, func(other *waiter) bool { return other == w })
	leave = w.leave
	d.mu.Unlock()
	if leave != nil {
		leave()
	}
	return nil, ctx.Err()
}

// roomOf returns what a layer of that size needs as a small one; 0 = it is none.
func roomOf(size int64) int64 {
	if size > maxSmall {
		return 0
	}
	return max(leastRoom, size)
}

// wanted takes note that somebody waits for what nobody has wanted before.
func (d *downloads) wanted(of *fetch) {
	if of.spare.CompareAndSwap(true, false) && d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.admit()
	}
}

// answered takes note of an answer, by HTTP/2 or not. Manifests may come from elsewhere than
// layers, and large layers have connections of their own: they say nothing about small ones.
func (d *downloads) answered(of *fetch, shared bool) {
	if d == nil || !of.blob || of.size > maxSmall {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shared = shared
	d.admit()
}

// admit lets in whoever may download now, in order of arrival. The caller holds the lock.
func (d *downloads) admit() {
	d.queue = slices.DeleteFunc(d.queue, func(w *waiter) bool {
		switch {
		case w.room > 0 && d.shared && !d.alone && d.small+w.room <= smallRoom:
			d.small += w.room
			w.leave = d.leaving(func() { d.small -= w.room })
		case d.places > 0 && !w.of.spare.Load():
			d.places--
			w.leave = d.leaving(func() { d.places++ })
		default:
			return false
		}
		close(w.enter)
		return true
	})
}

// leaving returns what gives something back, once.
func (d *downloads) leaving(giveBack func()) func() {
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		giveBack()
		d.admit()
	})
}

// boundedReader reads content when it may be downloaded, from its first Read to its end. Until
// it may, it does not wait for content.
type boundedReader struct {
	*retryReader
	leave func() // nil = it may not
	ended bool
}

// Read implements io.Reader.
func (r *boundedReader) Read(p []byte) (int, error) {
	if r.fetch.downloads == nil {
		return r.retryReader.Read(p)
	}
	if r.leave == nil && !r.ended {
		leave, err := r.fetch.downloads.acquire(r.ctx, r.fetch)
		if err != nil {
			return 0, err
		}
		r.leave = leave
	}
	n, err := r.retryReader.Read(p)
	if err != nil {
		r.ended = err == io.EOF //nolint:errorlint // one that is wrapped is a failure
		r.end()
	}
	return n, err
}

// Seek implements io.Seeker.
func (r *boundedReader) Seek(offset int64, whence int) (int64, error) {
	r.ended = false
	return r.retryReader.Seek(offset, whence)
}

// Close closes the content.
func (r *boundedReader) Close() error {
	defer r.end()
	return r.retryReader.Close()
}

func (r *boundedReader) end() {
	if r.leave != nil {
		r.leave()
		r.leave = nil
	}
}
