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

// places are those of the requests over the connections that a lane uses, and the queue for them, guarded by its lock.
type places struct {
	taken   int
	waiting []chan *places // each is told where its request has a place, in order of arrival
}

// wake gives free places to those who have waited for longest.
func (p *places) wake(limit int) {
	for len(p.waiting) > 0 && p.taken < limit {
		p.waiting[0] <- p
		p.waiting = p.waiting[1:]
		p.taken++
	}
}

// limit is how many requests may be under way over the connections that are used. One of them makes the first connection.
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
	if at := l.places; len(at.waiting) == 0 && at.taken < l.limit() {
		at.taken++
		l.mu.Unlock()
		return l.leaving(at), nil
	}
	queue := queueOf(ctx)
	patience := queue.patience()
	if l.protocol == unknown {
		patience = queue.scouting()
	}
	ready := make(chan *places, 1)
	l.places.waiting = append(l.places.waiting, ready)
	l.mu.Unlock()

	queue.begin()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var at *places
	select {
	case at = <-ready:
	case <-timer.C:
		at = l.insist(ready)
	case <-ctx.Done():
		l.leave(l.insist(ready))
		return nil, ctx.Err()
	}
	queue.end()
	return l.leaving(at), nil
}

// insist takes a place that is not free, unless there is one by now.
func (l *lane) insist(ready chan *places) *places {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.places.waiting, ready)
	if i < 0 {
		return <-ready
	}
	l.places.waiting = slices.Delete(l.places.waiting, i, i+1)
	l.places.taken++
	return l.places
}

func (l *lane) leaving(at *places) func() { return sync.OnceFunc(func() { l.leave(at) }) }

func (l *lane) leave(at *places) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at.taken--
	at.wake(l.limit())
}

// empty has those who wait do so for places over other connections, of which none is taken. The caller holds the lock.
func (l *lane) empty() {
	former := l.places
	l.places = &places{waiting: former.waiting}
	former.waiting = nil
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
