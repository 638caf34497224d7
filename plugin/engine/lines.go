// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/internal/shared"
	"github.com/pullwarden/pullwarden/plugin/isolation"
)

// lines are those in which requests stand for the turn of a name. Who has the turn may wait meanwhile for what other pulls
// do, which may be no concern of those who stand behind, and as slow as somebody likes. So who has stood in the line for a while hurries
// all that have the turn before, and they take over what others are at for too long: see [isolation.WithPatience]. The zero value is ready.
type lines struct {
	turns shared.Lock[string]

	mu  sync.Mutex
	all map[string]*line
}

// line is that of one name.
type line struct {
	waiting map[*inLine]bool
	hurry   func() // hurries who has the turn; nil = nobody has it
}

// inLine is somebody who waits in a line.
type inLine struct{ late bool } // has stood there for a while

// Lock waits for the turn, to act by the context that it returns, and returns the function that passes the turn on,
// which must be called once. The error is the context's, and nothing is held then. What is done in the turn waits for other repositories for
// that patience, less the time in the line: in all, however many stand there. 0 or less is [isolation.DefaultPatience].
func (l *lines) Lock(ctx context.Context, name string, patience time.Duration) (_ context.Context, unlock func(), err error) {
	if ctx, unlock, ok := l.TryLock(ctx, name); ok {
		return ctx, unlock, nil
	}
	if patience <= 0 {
		patience = isolation.DefaultPatience
	}
	own, until := &inLine{}, time.Now().Add(patience)
	l.change(name, func(of *line) { of.waiting[own] = true })
	timer := time.AfterFunc(patience/10, func() { l.change(name, func(*line) { own.late = true }) })
	next, err := l.turns.Lock(ctx, name)
	timer.Stop()
	l.change(name, func(of *line) { delete(of.waiting, own) })
	if err != nil {
		return ctx, nil, err
	}
	ctx, unlock = l.hold(ctx, name, next, until)
	return ctx, unlock, nil
}

// TryLock is Lock if nobody has the turn, and reports whether that is so. Its patience is that of any pull.
func (l *lines) TryLock(ctx context.Context, name string) (_ context.Context, unlock func(), ok bool) {
	next, ok := l.turns.TryLock(name)
	if !ok {
		return ctx, nil, false
	}
	ctx, unlock = l.hold(ctx, name, next, time.Time{})
	return ctx, unlock, true
}

// hold notes who has the turn, which next passes on.
func (l *lines) hold(ctx context.Context, name string, next func(), until time.Time) (_ context.Context, unlock func()) {
	ctx, hurry := isolation.WithPatience(ctx, until)
	l.change(name, func(of *line) { of.hurry = hurry })
	return ctx, func() {
		l.change(name, func(of *line) { of.hurry = nil })
		hurry()
		next()
	}
}

// change changes a line, and hurries who has the turn if need be.
func (l *lines) change(name string, change func(*line)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.all[name]
	if of == nil {
		of = &line{waiting: map[*inLine]bool{}}
	}
	change(of)
	if of.hurry == nil && len(of.waiting) == 0 {
		delete(l.all, name)
		return
	}
	if l.all == nil {
		l.all = map[string]*line{}
	}
	l.all[name] = of
	for other := range of.waiting {
		if other.late && of.hurry != nil {
			of.hurry()
		}
	}
}
