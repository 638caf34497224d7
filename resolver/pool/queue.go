// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// maxSingle is how many requests a host is sent at a time by HTTP/1.1. Each has a
	// connection, and net/http may make a few more, which must not be more than 16 in all.
	maxSingle = 12
	// maxMultiplexed is the same for HTTP/2, on one connection: servers allow 100 streams
	// (RFC 9113, section 6.5.2) or more.
	maxMultiplexed = 64

	// maxWait is how long a request waits for those before it, if that is no more than a
	// quarter of the time that it has. Then it is sent over a connection more: a repository
	// that hangs does not hold up the others.
	maxWait = 500 * time.Millisecond
	// maxScout is the same for requests that wait for the first connection, which tells
	// how many there may be, if that is no more than half of the time that they have.
	maxScout = time.Second
)

// places is the queue of a lane, guarded by its lock.
type places struct {
	taken   int
	waiting []chan struct{} // each closed when the request has a place, in order of arrival
}

// wake gives free places to those who have waited for longest.
func (p *places) wake(limit int) {
	for len(p.waiting) > 0 && p.taken < limit {
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
		p.taken++
	}
}

// limit is how many requests may be under way. One of them makes the first connection.
// The caller holds the lock.
func (l *lane) limit() int {
	switch l.protocol {
	case http1:
		return maxSingle
	case http2:
		return maxMultiplexed
	}
	return 1
}

// enter waits for a place in order of arrival. The error is that of the context. The
// caller calls leave, which may be called twice.
func (l *lane) enter(ctx context.Context) (leave func(), err error) {
	l.mu.Lock()
	if len(l.places.waiting) == 0 && l.places.taken < l.limit() {
		l.places.taken++
		l.mu.Unlock()
		return sync.OnceFunc(l.leave), nil
	}
	queue := queueOf(ctx)
	patience := queue.patience()
	if l.protocol == unknown {
		patience = queue.scouting()
	}
	ready := make(chan struct{})
	l.places.waiting = append(l.places.waiting, ready)
	l.mu.Unlock()

	queue.begin()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ready:
	case <-timer.C:
		l.insist(ready)
	case <-ctx.Done():
		l.insist(ready)
		l.leave()
		return nil, ctx.Err()
	}
	queue.end()
	return sync.OnceFunc(l.leave), nil
}

// insist takes a place that is not free, unless there is one by now.
func (l *lane) insist(ready chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.places.waiting, ready); i >= 0 {
		l.places.waiting = slices.Delete(l.places.waiting, i, i+1)
		l.places.taken++
	}
}

func (l *lane) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places.taken--
	l.places.wake(l.limit())
}

// placeBody gives the place of a request free with the end of its answer.
type placeBody struct {
	io.ReadCloser
	leave func()
}

// Read reads the body.
func (b *placeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.leave()
	}
	return n, err
}

// Close closes the body.
func (b *placeBody) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}
