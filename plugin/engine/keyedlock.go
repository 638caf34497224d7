// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"sync"
)

// keyedLock lets those who share a key take turns. Waiting ends with the
// context. The zero value is ready.
type keyedLock struct {
	mu    sync.Mutex
	turns map[string]*turn
}

// turn is the right to go on; whoever holds the token has it.
type turn struct {
	token chan struct{}
	users int // holders and waiters
}

// lock waits for the turn and returns the function that passes it on.
func (k *keyedLock) lock(ctx context.Context, key string) (unlock func(), err error) {
	k.mu.Lock()
	if k.turns == nil {
		k.turns = map[string]*turn{}
	}
	t := k.turns[key]
	if t == nil {
		t = &turn{token: make(chan struct{}, 1)}
		k.turns[key] = t
	}
	t.users++
	k.mu.Unlock()

	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(k.turns, key)
		}
	}
	select {
	case t.token <- struct{}{}:
		return func() { <-t.token; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
