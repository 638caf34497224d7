// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"cmp"
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
//
// So a pull has turns of the registry only while all that it waits for comes from
// there: it leaves them when it follows urls, which lead wherever a manifest says,
// and while it waits for another pull of its source, which may do that.
type locker struct {
	scope    Scope
	turns    *shared.Lock[turnKey]
	patience time.Duration
	own      shared.Lock[string] // between the parts of this pull: an image may have a layer twice
	places   *places             // that it has for content; nil = there is no bound
	hurried  context.Context     // is done once the patience is over for another reason

	mu         sync.Mutex
	deadline   time.Time         // of all waiting for other repositories; zero = it has not waited yet
	held       map[string]func() // passes a turn on to the pulls of the source
	ofRegistry map[string]func() // passes one on to those of the registry
	away       int               // why there are no turns of the registry; 0 = there are
}

// newLocker takes turns for a pull of the context's scope.
func newLocker(ctx context.Context, turns *shared.Lock[turnKey], patience time.Duration) *locker {
	return &locker{
		scope: ScopeOf(ctx), turns: turns, patience: patience, hurried: Patience(ctx),
		held: map[string]func(){}, ofRegistry: map[string]func(){},
	}
}

// Lock waits for the turn, and for a place. The error is the context's, and nothing is held then.
func (l *locker) Lock(ctx context.Context, key string) error {
	leaveOwn, err := l.own.Lock(ctx, key)
	if err != nil {
		return err
	}
	leaveSource, err := l.lockSource(ctx, turnKey{scope: l.scope, of: ofSource, key: key})
	if err != nil {
		leaveOwn()
		return err
	}
	l.lockRegistry(ctx, key)
	// Whoever has a place waits for no turn: it is taken last.
	leavePlace, err := l.places.enter(ctx, key)
	l.mu.Lock()
	l.held[key] = func() { leavePlace(); leaveSource(); leaveOwn() }
	l.mu.Unlock()
	if err = cmp.Or(err, ctx.Err()); err != nil {
		l.Unlock(key)
		return err
	}
	return nil
}

// lockSource waits for the turn among all pulls of the source, and meanwhile leaves
// those of the registry.
func (l *locker) lockSource(ctx context.Context, key turnKey) (leave func(), err error) {
	if leave, ok := l.turns.TryLock(key); ok {
		return leave, nil
	}
	l.leaveRegistry()
	defer l.returnToRegistry()
	return l.turns.Lock(ctx, key)
}

// lockRegistry waits for the turn among all pulls of the registry, or goes on
// without it when the patience ends, or the pull has left the registry.
func (l *locker) lockRegistry(ctx context.Context, key string) {
	if l.isAway() {
		return
	}
	turn := turnKey{scope: l.scope.OfRegistry(), of: ofRegistry, key: key}
	leave, ok := l.turns.TryLock(turn)
	if !ok {
		ctx, cancel := context.WithDeadline(ctx, l.waitUntil())
		defer cancel()
		defer context.AfterFunc(l.hurried, cancel)() //nolint:contextcheck // it ends before the pull, or with it
		var err error
		if leave, err = l.turns.Lock(ctx, turn); err != nil {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away > 0 {
		leave()
		return
	}
	l.ofRegistry[key] = leave
}

func (l *locker) isAway() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.away > 0
}

// leaveRegistry passes on all turns of the registry. The pull goes on without them,
// and takes none before returnToRegistry was called as often.
func (l *locker) leaveRegistry() {
	l.mu.Lock()
	l.away++
	all := l.ofRegistry
	l.ofRegistry = map[string]func(){}
	l.mu.Unlock()
	for _, leave := range all {
		leave()
	}
}

func (l *locker) returnToRegistry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away--
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
	leave, leaveRegistry := l.held[key], l.ofRegistry[key]
	delete(l.held, key)
	delete(l.ofRegistry, key)
	l.mu.Unlock()
	if leaveRegistry != nil {
		leaveRegistry()
	}
	leave()
}
