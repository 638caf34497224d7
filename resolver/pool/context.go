// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"sync"
	"time"
)

// maxShared is the size up to which a layer shares an HTTP/2 connection, in bytes: a
// connection of its own takes two or three round trips before the first byte.
const maxShared = 8 << 20

type (
	layerKey    struct{}
	queueKey    struct{}
	onceKey     struct{}
	answeredKey struct{}
)

// WithOneTry returns a context whose requests are not sent a second time while a
// connection is silent.
func WithOneTry(ctx context.Context) context.Context { return context.WithValue(ctx, onceKey{}, true) }

// WithAnswered returns a context that has a function called with the status of each answer that
// begins, before any of its body is read; more than once, and on other goroutines, where a request
// is sent more than once.
func WithAnswered(ctx context.Context, answered func(status int)) context.Context {
	return context.WithValue(ctx, answeredKey{}, answered)
}

// WithLayer returns a context whose requests are for a layer of that size, in bytes.
func WithLayer(ctx context.Context, size int64) context.Context {
	return context.WithValue(ctx, layerKey{}, size)
}

// layerOf returns the size of the layer that a context is for, and false for none.
func layerOf(ctx context.Context) (size int64, layer bool) {
	size, layer = ctx.Value(layerKey{}).(int64)
	return size, layer
}

// ofPull reports whether a context is for content of a pull: a layer, or what has one try. Who
// reads that counts its bytes as they come, and asks for the rest where it breaks off.
func ofPull(ctx context.Context) bool {
	_, layer := layerOf(ctx)
	return layer || ctx.Value(onceKey{}) != nil
}

// Queue tells whether a request waits for a connection, which is nothing that its host
// does. The zero value is that of a request that does not wait.
type Queue struct {
	// Left is how much time the request has; 0 = no bound.
	Left time.Duration

	mu       sync.Mutex
	waiting  bool
	admitted time.Time
}

// WithQueue returns a context that keeps q up to date for one request.
func WithQueue(ctx context.Context, q *Queue) context.Context {
	return context.WithValue(ctx, queueKey{}, q)
}

// queueOf returns the Queue of a context, nil for none.
func queueOf(ctx context.Context) *Queue {
	q, _ := ctx.Value(queueKey{}).(*Queue)
	return q
}

// Waiting reports whether the request waits, and nobody has been asked.
func (q *Queue) Waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// Admitted returns when the request was on its way, after a wait; the zero time for a
// request that has not waited.
func (q *Queue) Admitted() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.admitted
}

// patience is how long the request waits for those before it.
func (q *Queue) patience() time.Duration {
	if q == nil || q.Left == 0 {
		return maxWait
	}
	return min(maxWait, q.Left/4)
}

// scouting is how long the request waits for the first connection.
func (q *Queue) scouting() time.Duration {
	if q == nil || q.Left == 0 {
		return maxScout
	}
	return min(maxScout, q.Left/2)
}

func (q *Queue) begin() {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = true
}

func (q *Queue) end() {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting, q.admitted = false, time.Now()
}
