// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"sync"

	"github.com/pullwarden/pullwarden/internal/shared"
)

// keyedLock lets pulls that need the same blob or snapshot take turns. It is an
// unpack.KeyedLocker. The zero value is ready.
type keyedLock struct {
	turns shared.Lock[string]
	held  sync.Map // of the functions that pass the turns on, by key
}

// Lock waits for the turn. The error is the context's, and nothing is held then.
func (k *keyedLock) Lock(ctx context.Context, key string) error {
	unlock, err := k.turns.Lock(ctx, key)
	if err == nil {
		k.held.Store(key, unlock)
	}
	return err
}

// Unlock passes the turn on. The caller must hold it.
func (k *keyedLock) Unlock(key string) {
	unlock, _ := k.held.LoadAndDelete(key)
	unlock.(func())()
}
