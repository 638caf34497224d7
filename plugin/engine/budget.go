// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"github.com/pullwarden/pullwarden/internal/registryname"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

const (
	// maxBudgets bounds the registries whose budgets are kept: tenants can name any number
	// of them. The one that was not used for longest goes first, and has what it would have
	// without checks when it comes back.
	maxBudgets = 256
	// burstPart is the part of a minute's checks that may be made at once.
	burstPart = 2
	// waitPart is the part of its time that a check waits for its budget at most, and maxTurn
	// bounds that wait: a pod can hint a long time, and would take all turns until then.
	waitPart = 4
	maxTurn  = 1250 * time.Millisecond
)

// budgets are the checks that the node may make of each registry: a token bucket for each
// registry and rate. The zero value is ready; safe for concurrent use.
type budgets struct {
	mu  sync.Mutex
	all *simplelru.LRU[budgetKey, *bucket]
}

// bucket is the budget of one registry.
type bucket struct {
	*rate.Limiter
	// mu parts those who reserve: one that gives its turn back loses it where another has
	// reserved in between.
	mu sync.Mutex
}

// reserve takes a check of which the turn comes within that time; nil where it comes later.
func (b *bucket) reserve(now time.Time, longest time.Duration) *rate.Reservation {
	b.mu.Lock()
	defer b.mu.Unlock()
	turn := b.ReserveN(now, 1)
	if turn.DelayFrom(now) > longest {
		turn.CancelAt(now)
		return nil
	}
	return turn
}

type budgetKey struct {
	registry  string // its canonical name
	perMinute int
}

// of returns the bucket of a registry. It was empty when the daemon started, so that a fleet
// whose daemons are restarted, or whose power comes back, does not ask all at once.
func (b *budgets) of(key budgetKey, started time.Time) *bucket {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all, _ = simplelru.NewLRU[budgetKey, *bucket](maxBudgets, nil) // fails for sizes below 1 only
	}
	l, ok := b.all.Get(key)
	if !ok {
		l = &bucket{Limiter: rate.NewLimiter(rate.Limit(float64(key.perMinute)/60), max(1, key.perMinute/burstPart))}
		l.AllowN(started, l.Burst())
		b.all.Add(key, l)
	}
	return l
}

// spend takes one check from the budget of the registry, and waits for its turn as long as
// a quarter of the time of the check, or maxTurn. Where that is not enough it returns why the
// registry is not asked, if the cached image would do then. Callers who have no such image, or
// have not proved that they may have it, ask all the same, and at once: an image of which
// nothing is known is everybody's where no registry can say more, and this one can. waited
// is the time that it took. The error is a *resolver.Error, or that of the context.
func (e *Engine) spend(ctx context.Context, t task, c *course, session resolver.Session) (waited time.Duration, refused error) {
	perMinute := t.directives.ChecksPerMinute
	if perMinute == 0 {
		return 0, nil
	}
	registry, _, _ := strings.Cut(registryname.Repository(t.Repository), "/")
	bucket, now := e.budgets.of(budgetKey{registry, perMinute}, e.Started), e.Now()
	if !t.canGoUnasked(c.local) {
		bucket.AllowN(now, 1)
		return 0, nil
	}
	longest := min((t.directives.VerifyTimeout-c.checkTime)/waitPart, maxTurn)
	turn := bucket.reserve(now, max(longest, 0))
	if turn == nil {
		c.use(policy.KeyChecksPerMinute)
		return 0, overBudget(t, cmp.Or(session.Origin(), registry))
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
func (t *task) canGoUnasked(local Local) bool {
	return local.Grant.Given() && fallbacks(t.directives.Directives, local).Has(failure.RateLimited)
}

// overBudget is the failure of a check that is not made.
func overBudget(t task, host string) *resolver.Error {
	return &resolver.Error{Reference: t.Name, Class: failure.RateLimited, Attempts: []resolver.Attempt{{
		Host: host, Origin: true, Class: failure.RateLimited,
		Err: fmt.Errorf("not asked: the node has made its %s", t.directives.Describe(policy.KeyChecksPerMinute)),
	}}}
}
