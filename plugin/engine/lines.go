// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/internal/shared"
	"github.com/pullwarden/pullwarden/plugin/isolation"
)

// lines are those in which requests stand for the turn of a name. Who has the turn may wait meanwhile for what pulls of other
// repositories do: see [isolation.WithPatience]. That ends once somebody stands in the line who would not wait for it, or
// has stood there for as long as one pull may. So it holds nobody up for longer, whoever stands before. The zero value is ready.
type lines struct {
	turns shared.Lock[string]

	mu  sync.Mutex
	all map[string]*line
}

// line is that of one name.
type line struct {
	waiting map[*inLine]bool
	holder  *inLine // who has the turn; nil = nobody
}

// inLine is somebody in a line.
type inLine struct {
	scope isolation.Scope
	late  bool   // has stood there for long enough
	hurry func() // ends the patience of who has the turn
}

// Lock waits for the turn, to act in that scope by the context that it returns, and returns the function that passes the turn on,
// which must be called once. The error is the context's, and nothing is held then. A patience of 0 is [isolation.DefaultPatience].
func (l *lines) Lock(ctx context.Context, name string, scope isolation.Scope, patience time.Duration) (_ context.Context, unlock func(), err error) {
	if ctx, unlock, ok := l.TryLock(ctx, name, scope); ok {
		return ctx, unlock, nil
	}
	own := &inLine{scope: scope}
	l.change(name, func(of *line) { of.waiting[own] = true })
	timer := time.AfterFunc(cmp.Or(patience, isolation.DefaultPatience), func() {
		l.change(name, func(*line) { own.late = true })
	})
	next, err := l.turns.Lock(ctx, name)
	timer.Stop()
	l.change(name, func(of *line) { delete(of.waiting, own) })
	if err != nil {
		return ctx, nil, err
	}
	ctx, unlock = l.hold(ctx, name, scope, next)
	return ctx, unlock, nil
}

// TryLock is Lock if nobody has the turn, and reports whether that is so.
func (l *lines) TryLock(ctx context.Context, name string, scope isolation.Scope) (_ context.Context, unlock func(), ok bool) {
	next, ok := l.turns.TryLock(name)
	if !ok {
		return ctx, nil, false
	}
	ctx, unlock = l.hold(ctx, name, scope, next)
	return ctx, unlock, true
}

// hold notes who has the turn, which next passes on.
func (l *lines) hold(ctx context.Context, name string, scope isolation.Scope, next func()) (_ context.Context, unlock func()) {
	ctx, hurry := isolation.WithPatience(ctx)
	own := &inLine{scope: scope, hurry: hurry}
	l.change(name, func(of *line) { of.holder = own })
	return ctx, func() {
		l.change(name, func(of *line) { of.holder = nil })
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
	if of.holder == nil && len(of.waiting) == 0 {
		delete(l.all, name)
		return
	}
	if l.all == nil {
		l.all = map[string]*line{}
	}
	l.all[name] = of
	for other := range of.waiting {
		if of.holder != nil && (other.late || other.scope != of.holder.scope) {
			of.holder.hurry()
		}
	}
}

// lineScope is that of a task in lines: whoever has the same waits for the same.
func (t *task) lineScope() isolation.Scope { return t.scope(nil).OfRegistry() }
