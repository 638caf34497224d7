// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/internal/shared"
)

// turnKey is the turn to fetch or unpack something for one source, or for all
// sources of one registry.
type turnKey struct {
	scope Scope
	of    level
	key   string
}

type level int

const (
	ofSource level = iota
	ofRegistry
)

// locker takes the turns of one pull, so that pulls of the same content do its
// work once. It is an unpack.KeyedLocker. A pull waits without a bound for those
// of its own source, of which each ends for lack of progress by itself. It waits
// for pulls of another repository of its registry as well, but only for as long
// as its patience lasts: a repository may be another tenant's. It does not wait
// for other registries and callers.
type locker struct {
	scope    Scope
	turns    *shared.Lock[turnKey]
	patience time.Duration

	mu       sync.Mutex
	deadline time.Time // of all waiting for other repositories; zero = it has not waited yet
	held     map[string]func()
}

func newLocker(scope Scope, turns *shared.Lock[turnKey], patience time.Duration) *locker {
	return &locker{scope: scope, turns: turns, patience: patience, held: map[string]func(){}}
}

// Lock waits for the turn. The error is the context's, and nothing is held then.
func (l *locker) Lock(ctx context.Context, key string) error {
	leave, err := l.turns.Lock(ctx, turnKey{scope: l.scope, of: ofSource, key: key})
	if err != nil {
		return err
	}
	leaveRegistry := l.lockRegistry(ctx, turnKey{scope: l.scope.OfRegistry(), of: ofRegistry, key: key})
	unlock := func() {
		leaveRegistry()
		leave()
	}
	if err := ctx.Err(); err != nil {
		unlock()
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[key] = unlock
	return nil
}

// lockRegistry waits for the turn among all pulls of the registry, or goes on
// without it when the patience ends.
func (l *locker) lockRegistry(ctx context.Context, key turnKey) (leave func()) {
	if leave, ok := l.turns.TryLock(key); ok {
		return leave
	}
	ctx, cancel := context.WithDeadline(ctx, l.waitUntil())
	defer cancel()
	leave, err := l.turns.Lock(ctx, key)
	if err != nil {
		return func() {}
	}
	return leave
}

// waitUntil returns when the patience of the pull ends. It begins to count when
// the pull waits for the first time.
func (l *locker) waitUntil() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deadline.IsZero() {
		l.deadline = time.Now().Add(l.patience)
	}
	return l.deadline
}

// Unlock passes the turn on. The caller must hold it.
func (l *locker) Unlock(key string) {
	l.mu.Lock()
	unlock := l.held[key]
	delete(l.held, key)
	l.mu.Unlock()
	unlock()
}
