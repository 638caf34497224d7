// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// budgeted is an engine in a bubble whose rule allows so many checks a minute, of a node
// with the first image, which alice has proved access to.
func budgeted(n *node, perMinute string, directives ...string) *Engine {
	n.remote, n.record = first, cachedImage(first, now)
	e := n.engine(rule(append([]string{`policy = "IfDigestChanged"`, "checks_per_minute = " + perMinute}, directives...)...))
	e.Now = time.Now
	return e
}

// Half of a minute's checks may be made at once. The next one waits for its turn.
func TestBudgetOfChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		e := budgeted(n, "60")
		began := time.Now()
		for i := range 32 {
			if o, err := e.Ensure(t.Context(), n.request(nil)); err != nil || o.Kind != Unchanged {
				t.Fatalf("check %d: %s %s, %v", i, o.Kind, o.Reason, err)
			}
			if waited, want := time.Since(began), time.Duration(max(0, i-29))*time.Second; waited != want {
				t.Errorf("check %d after %v, want %v", i, waited, want)
			}
		}
	})
}

// A node whose turn comes late starts pods from the cached image, as after a 429.
func TestBudgetIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		e := budgeted(n, "6")
		for range 2 { // of the three that may be made at once
			if _, err := e.Ensure(t.Context(), n.request(nil)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 20 {
			o, err := e.Ensure(t.Context(), n.request(nil))
			if err != nil || o.Elapsed != 0 {
				t.Fatalf("after %v: %v", o.Elapsed, err)
			}
			if i%5 == 0 { // every ten seconds
				if o.Kind != Unchanged {
					t.Errorf("start %d: %s %s", i, o.Kind, o.Reason)
				}
			} else if o.Kind != UsedCached || o.Class != failure.RateLimited ||
				o.Attempts[0].Err.Error() != "not asked: the node has made its checks_per_minute=6(rule rules.toml#1)" ||
				!strings.Contains(o.DecidedBy(), "checks_per_minute=6") || n.stale[name].Reason != store.StaleReason(failure.RateLimited) {
				t.Errorf("start %d: %s by %s, %v, stale %+v", i, o.Kind, o.DecidedBy(), o.Attempts, n.stale[name])
			}
			time.Sleep(2 * time.Second)
		}
		if n.checks != 2+4 {
			t.Errorf("%d checks", n.checks)
		}
	})
}

// Pods for which the cached image would not do ask all the same, and at once.
func TestBudgetHoldsNobodyUp(t *testing.T) {
	for what, test := range map[string]struct {
		directives []string
		change     func(*node)
		want       Kind
	}{
		"without an image": {nil, func(n *node) { n.record = nil }, Pulled},
		"without a proof":  {nil, func(n *node) { n.record.Access = nil }, Unchanged},
		"too stale":        {[]string{`max_stale = "1s"`}, func(n *node) { n.record.Verified.At = time.Now().Add(-time.Hour) }, Unchanged},
		"by the rule":      {[]string{`on = { rate_limited = "Fail" }`}, func(*node) {}, Unchanged},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{}
				e := budgeted(n, "60", test.directives...)
				began := time.Now()
				for i := range 100 {
					test.change(n)
					o, err := e.Ensure(t.Context(), n.request(nil))
					if err != nil || o.Kind != test.want || n.checks != i+1 {
						t.Fatalf("%s after %d checks, %v; want %s", o.Kind, n.checks, err, test.want)
					}
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("they waited %v", took)
				}
			})
		})
	}
}

// Each registry has a budget of its own, and so does each number; a start that asks nobody
// takes nothing.
func TestBudgetsAreApart(t *testing.T) {
	var b budgets
	for range 2 {
		for _, key := range []budgetKey{{"a.test", 6}, {"b.test", 6}, {"a.test", 12}} {
			bucket, want := b.of(key, time.Time{}), max(1, key.perMinute/burstPart)
			if again := b.of(key, time.Time{}); bucket.Burst() != want || again != bucket {
				t.Errorf("%v: a burst of %d, want %d", key, bucket.Burst(), want)
			}
		}
	}
	if now := time.Now(); !b.of(budgetKey{"a.test", 6}, time.Time{}).AllowN(now, 3) || b.of(budgetKey{"a.test", 6}, time.Time{}).AllowN(now, 1) || !b.of(budgetKey{"b.test", 6}, time.Time{}).AllowN(now, 3) {
		t.Error("two registries share a budget")
	}
	for i := range 2 * maxBudgets {
		b.of(budgetKey{"a.test", i + 1}, time.Time{})
	}
	if n := b.all.Len(); n != maxBudgets {
		t.Errorf("%d budgets are kept", n)
	}
}

// A check that waits for its turn ends with its caller, and leaves the turn to the next.
func TestBudgetLeavesWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		e := budgeted(n, "60")
		for range 30 {
			if _, err := e.Ensure(t.Context(), n.request(nil)); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := e.Ensure(ctx, n.request(nil)); err == nil || n.checks != 30 {
			t.Errorf("%d checks, %v", n.checks, err)
		}
		began := time.Now()
		if o, err := e.Ensure(t.Context(), n.request(nil)); err != nil || o.Kind != Unchanged || time.Since(began) > time.Second {
			t.Errorf("%s after %v, %v", o.Kind, time.Since(began), err)
		}
	})
}

// A daemon that has just started has no checks left, so that a fleet whose nodes boot
// together does not ask together; it has them as soon as they would have come.
func TestBudgetAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		e := budgeted(n, "6")
		e.Started = time.Now()
		for _, step := range []struct {
			after time.Duration
			want  Kind
		}{{0, UsedCached}, {8 * time.Second, UsedCached}, {9 * time.Second, Unchanged}, {10 * time.Second, UsedCached}} {
			time.Sleep(time.Until(e.Started.Add(step.after)))
			if o, err := e.Ensure(t.Context(), n.request(nil)); err != nil || o.Kind != step.want {
				t.Errorf("after %v: %s, %v", step.after, o.Kind, err)
			}
		}
	})
}

// A budget that is used up opens nothing: whose an image is of which nothing is known says
// the registry, which is asked for it at once.
func TestBudgetOpensNothing(t *testing.T) {
	for _, policy := range []string{"IfDigestChanged", "IfNotPresent"} {
		n := open()
		n.checkFails = failure.Unauthorized
		e := n.engine(rule(`policy = "`+policy+`"`, "checks_per_minute = 1"))
		e.Started = now // nothing is left
		for i := range 3 {
			o, err := e.Ensure(t.Context(), n.request(nil))
			if err == nil || o.Class != failure.Unauthorized || n.checks != i+1 {
				t.Errorf("%s: %s %s after %d checks, %v", policy, o.Kind, o.Reason, n.checks, err)
			}
		}
	}
}

// A registry has one budget by whatever name it is asked for.
func TestBudgetOfOneRegistry(t *testing.T) {
	n := &node{}
	e := budgeted(n, "1")
	e.Now = func() time.Time { return now }
	for i, registry := range []string{"registry.test", "Registry.test", "registry.test:443", "registry.test:0443"} {
		req := n.request(nil)
		req.Repository = registry + "/app"
		o, err := e.Ensure(t.Context(), req)
		if want := i == 0; err != nil || (o.Kind == Unchanged) != want || n.checks != 1 {
			t.Errorf("%s: %s %s after %d checks, %v", registry, o.Kind, o.Reason, n.checks, err)
		}
	}
}

// A pod that hints a long verify-timeout takes no turns that others would have had.
func TestBudgetIsNotTakenByHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		e := budgeted(n, "60", `hints = "Allow"`)
		for range 30 {
			if _, err := e.Ensure(t.Context(), n.request(nil)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 20 {
			timeout := (time.Minute + time.Duration(i)*time.Second).String() // none shares the check of another
			go func() {
				_, _ = e.Ensure(t.Context(), n.request(map[string]string{"pullwarden.io/verify-timeout": timeout}))
			}()
		}
		time.Sleep(5 * time.Second) // each turn is one of a second
		o, err := e.Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != Unchanged {
			t.Errorf("%s %s, %v", o.Kind, o.Reason, err)
		}
	})
}

// A pod whose proof, or whose cached image, goes while the budget is looked at is asked
// about: nothing else is left to use.
func TestBudgetOfWhatHasGone(t *testing.T) {
	for what, gone := range map[string]func(*node){
		"the proof": func(n *node) { n.record.Access = nil },
		"the image": func(n *node) { n.record = nil },
	} {
		n := &node{}
		e := budgeted(n, "1")
		e.Started = now.Add(time.Hour) // nothing is left
		e.Now = func() time.Time { return now.Add(time.Hour) }
		n.onOpen = func() { n.onOpen = nil; gone(n) }
		o, err := e.Ensure(t.Context(), n.request(nil))
		if err != nil || n.checks != 1 || o.Class != failure.None {
			t.Errorf("%s: %s %s after %d checks, %v", what, o.Kind, o.Reason, n.checks, err)
		}
	}
}

// Checks that are not made take nothing, however many are asked for at the same time.
func TestBudgetOfChecksThatAreNotMade(t *testing.T) {
	var b budgets
	at := time.Now()
	bucket := b.of(budgetKey{"a.test", 6}, at) // nothing is left
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for range 5_000 {
				if bucket.reserve(at, time.Second) != nil {
					t.Error("a check is made")
				}
			}
		})
	}
	asking.Wait()
	if bucket.reserve(at.Add(10*time.Second), 0) == nil {
		t.Errorf("%v checks are left after the time of one", bucket.TokensAt(at.Add(10*time.Second)))
	}
}
