// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

const (
	// maxBudgets bounds the registries whose budgets are kept: tenants can name any number
	// of them. Those that the operator has named go last, and else the one that is nearest to
	// being full goes first: least is lost with it.
	maxBudgets = 256
	// waitPart is the part of its time that a check waits for its budget at most.
	waitPart = 4
	// maxTurnWait bounds that, so that a pod with a long verify_timeout, which its hint may
	// have set, does not stand in the way of the others.
	maxTurnWait = 2 * time.Second
)

// budgets are the checks that the node may make of each registry: a bucket for each registry
// and number. The zero value is ready; safe for concurrent use.
type budgets struct {
	mu  sync.Mutex
	all map[budgetKey]*bucket
}

type budgetKey struct {
	registry  string // its canonical name
	perMinute int
}

// take takes a check from a budget, as bucket.take does. named says that the operator has
// named the registry. Buckets were empty when the daemon started, so that a fleet whose
// daemons are restarted, or whose power comes back, does not ask all at once.
func (b *budgets) take(key budgetKey, named bool, started time.Time, namespace string, now time.Time, longest time.Duration) (turn *rate.Reservation, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.all[key]
	if of == nil {
		b.makeRoom(now)
		of = newBucket(key.perMinute, started)
		b.all[key] = of
	}
	of.named = of.named || named
	return of.take(namespace, now, longest)
}

// makeRoom forgets a bucket, if there are too many.
func (b *budgets) makeRoom(now time.Time) {
	if b.all == nil {
		b.all = map[budgetKey]*bucket{}
	}
	if len(b.all) < maxBudgets {
		return
	}
	var first budgetKey
	var least *bucket
	for key, of := range b.all {
		if least == nil || of.goesBefore(least, now) {
			first, least = key, of
		}
	}
	delete(b.all, first)
}

// spend takes one check from the budget of the registry, and waits for its turn as long as
// a quarter of the time of the check, and maxTurnWait at most; not at all where the cached image
// would not do if the rest of that time were too short. Where its turn does not come, or what is
// left is for other namespaces, it returns why the registry is not asked, if the cached image
// would do then. Callers to whom it would not ask all the same, and at once. waited is the time
// that it took. The error is a *resolver.Error, or that of the context.
func (e *Engine) spend(ctx context.Context, t task, c *course, session resolver.Session) (waited time.Duration, refused error) {
	perMinute := t.directives.ChecksPerMinute
	if perMinute == 0 {
		return 0, nil
	}
	of, now := t.place(session), e.Now()
	key := budgetKey{of.registry, perMinute}
	if c.mustAsk || !t.canGoUnasked(c.local, c.heard) {
		e.budgets.take(key, of.named, e.Started, t.Namespace, now, 0)
		return 0, nil
	}
	longest := max(0, min((t.directives.VerifyTimeout-c.checkTime)/waitPart, maxTurnWait))
	if !fallbacks(t.directives.Directives, c.local, c.heard).Has(failure.Unreachable) {
		longest = 0
	}
	turn, ok := e.budgets.take(key, of.named, e.Started, t.Namespace, now, longest)
	if !ok {
		c.use(policy.KeyChecksPerMinute)
		return 0, overBudget(t, cmp.Or(session.Origin(), key.registry))
	}
	timer := time.NewTimer(turn.DelayFrom(now))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		turn.CancelAt(e.Now())
		refused = ctx.Err()
	}
	return e.Now().Sub(now), refused
}

// canGoUnasked reports whether the cached image would do in the place of a check that is not
// made, for this caller. An image of which nothing is known would not: it is everybody's
// where no registry can say whose it is, and this one can.
func (t *task) canGoUnasked(local Local, h heard) bool {
	return local.Grant.Given() && fallbacks(t.directives.Directives, local, h).Has(failure.RateLimited)
}

// overBudget is the failure of a check that is not made.
func overBudget(t task, host string) *resolver.Error {
	return &resolver.Error{Reference: t.Name, Class: failure.RateLimited, Attempts: []resolver.Attempt{{
		Host: host, Origin: true, Class: failure.RateLimited,
		Err: fmt.Errorf("not asked: the node has made its %s, or this namespace its part of them", t.directives.Describe(policy.KeyChecksPerMinute)),
	}}}
}
