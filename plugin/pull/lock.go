// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"sync"
)

// keyedLock lets pulls that need the same blob or snapshot take turns. It is an
// unpack.KeyedLocker. The zero value is ready.
type keyedLock struct {
	mu    sync.Mutex
	turns map[string]*turn
}

// turn is held by whoever has put a token into the channel.
type turn struct {
	token chan struct{}
	users int // the holder and those who wait
}

// Lock waits for the turn. The error is the context's, and nothing is held then.
func (k *keyedLock) Lock(ctx context.Context, key string) error {
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
	select {
	case t.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		k.leave(key, t)
		return ctx.Err()
	}
}

// Unlock passes the turn on. The caller must hold it.
func (k *keyedLock) Unlock(key string) {
	k.mu.Lock()
	t := k.turns[key]
	k.mu.Unlock()
	<-t.token
	k.leave(key, t)
}

func (k *keyedLock) leave(key string, t *turn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(k.turns, key)
	}
}
