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

// locker takes the turns of one pull, so that pulls of the same content do its
// work once. It is an unpack.KeyedLocker. A pull waits without a bound for those
// of its own source, of which each ends for lack of progress by itself. It waits
// for pulls of another repository of its registry as well, but only for as long
// as its patience lasts: a repository may be another tenant's. It does not wait
// for other registries and callers.
//
// Who has the turn for a layer may have others to download, or to unpack, first. So a pull that is hurried takes
// over a turn whose pull has not been at it for a tenth of the patience; and any pull one in which another has unpacked a layer for as
// long, and not left it, since its other layers are still to be unpacked.
//
// A pull has turns of the registry only while all that it waits for comes from
// there: it leaves them when it follows urls, which lead wherever a manifest says,
// and while it waits for another pull of its source, which may do that.
type locker struct {
	scope    Scope
	turns    *turns
	patience time.Duration
	own      shared.Lock[string] // between the parts of this pull: an image may have a layer twice
	places   *places             // that it has for content; nil = there is no bound
	hurried  <-chan struct{}     // is closed once it takes turns over
	layers   layers
	progress progress

	mu         sync.Mutex
	deadline   time.Time         // of all waiting for other repositories; zero = it has not waited yet
	held       map[string]func() // passes turns on to the pulls of the source, and all else but those of the registry
	ofRegistry map[string]func() // passes one on to those of the registry
	away       int               // why there are no turns of the registry; 0 = there are
}

// lookInterval is how long a pull that waits goes on before it looks who has the turns now.
const lookInterval = time.Second

// newLocker takes turns for a pull of the context's scope.
func newLocker(ctx context.Context, turns *turns, patience time.Duration) *locker {
	until, hurried := PatienceOf(ctx)
	return &locker{
		scope: ScopeOf(ctx), turns: turns, patience: patience, hurried: hurried, deadline: until,
		held: map[string]func(){}, ofRegistry: map[string]func(){},
	}
}

// Lock waits for the turn, and for a place. The error is the context's, and nothing is held then.
func (l *locker) Lock(ctx context.Context, key string) error {
	leaveOwn, err := l.own.Lock(ctx, key)
	if err != nil {
		return err
	}
	leaveSource, err := l.take(ctx, key)
	if err != nil {
		leaveOwn()
		return err
	}
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

// take waits for the turn among all pulls of the source, and for that among all of the
// registry, unless the pull has left that. Those that it does not wait for to the end it has if they are free.
func (l *locker) take(ctx context.Context, key string) (leaveSource func(), err error) {
	turn, of := l.layers.turnOf(key)
	source, registry := turnKey{l.scope, ofSource, turn}, turnKey{l.scope.OfRegistry(), ofRegistry, turn}
	wanted := []turnKey{source, registry}
	if l.isAway() {
		wanted = wanted[:1]
	}
	_, isContent := blobOf(key)
	taken := l.turns.take(work{&l.progress, of, isContent, l.layers.below(key)}, wanted...)
	if err := l.wait(ctx, taken, source, registry); err != nil {
		l.turns.leave(taken, wanted...)
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away > 0 {
		l.turns.leave(taken, registry)
	} else {
		l.ofRegistry[key] = func() { l.turns.leave(taken, registry) }
	}
	return func() { l.turns.leave(taken, source) }, nil
}

// wait returns when the turns are granted, for as long as the pull waits for each. The error is the context's.
func (l *locker) wait(ctx context.Context, taken *taker, source, registry turnKey) error {
	select {
	case <-taken.granted:
		return nil
	default:
	}
	hurried, patience := l.hurried, time.NewTimer(time.Until(l.waitUntil()))
	defer patience.Stop()
	look := time.NewTicker(min(lookInterval, l.tenth()))
	defer look.Stop()
	var over []turnKey
	for left := false; ; {
		l.turns.takeOver(taken, l.tenth(), over...)
		if !left && l.turns.isTaken(taken, source) {
			left = true
			l.leaveRegistry()
			defer l.returnToRegistry()
		}
		select {
		case <-taken.granted:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			l.turns.spare(taken, registry)
		case <-hurried:
			hurried, over = nil, l.takenOver(source, registry)
		case <-look.C:
		}
	}
}

// takenOver are the turns that a pull which is hurried takes over. Content of one source is never downloaded twice at a time: it ends
// by itself where nothing comes, and two could not write it.
func (l *locker) takenOver(source, registry turnKey) []turnKey {
	if _, isContent := blobOf(source.key); isContent {
		return []turnKey{registry}
	}
	return []turnKey{source, registry}
}

// tenth is for how long somebody has a turn before a pull that is hurried takes it over.
func (l *locker) tenth() time.Duration { return max(l.patience/10, time.Millisecond) }

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

// waitUntil returns when the patience of the pull ends. Unless its context says until when,
// it begins to count when the pull waits for the first time.
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
	leave()
	if leaveRegistry != nil { // last: who waits for both may have come first
		leaveRegistry()
	}
}
