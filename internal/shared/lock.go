// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package shared

import "context"

// Lock lets callers with the same key take turns. The zero value is ready, and
// safe for concurrent use. It must not be copied.
type Lock[K comparable] struct {
	tokens Map[K, chan struct{}] // the channel of a key is full while somebody has the turn
}

// Lock waits for the turn and returns the function that passes it on, which must
// be called once. Waiting ends with the context: then nothing is held, and the
// error is the context's.
func (l *Lock[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	token, _, release := l.tokens.Acquire(key, func() chan struct{} { return make(chan struct{}, 1) })
	select {
	case token <- struct{}{}:
		return func() { <-token; release() }, nil
	case <-ctx.Done():
		release()
		return nil, ctx.Err()
	}
}

// TryLock takes the turn if nobody has it, and reports whether it did. The
// function passes the turn on; it must be called once.
func (l *Lock[K]) TryLock(key K) (unlock func(), ok bool) {
	token, _, release := l.tokens.Acquire(key, func() chan struct{} { return make(chan struct{}, 1) })
	select {
	case token <- struct{}{}:
		return func() { <-token; release() }, true
	default:
		release()
		return nil, false
	}
}
