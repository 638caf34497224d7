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
				o.Attempts[0].Err.Error() != "not asked: the node has made its checks_per_minute=6(rule rules.toml#1), or this namespace its part of them" ||
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

// Each registry has a budget of its own, and so does each number.
func TestBudgetsAreApart(t *testing.T) {
	var b budgets
	now := time.Now()
	for key, want := range map[budgetKey]int{{"a.test", 6}: 3, {"b.test", 6}: 3, {"a.test", 12}: 6, {"a.test", 1}: 1} {
		for i := range want + 1 {
			if _, ok := b.take(key, false, time.Time{}, "", now, 0); ok != (i < want) {
				t.Errorf("%v: check %d: %t", key, i, ok)
			}
		}
	}
}

// All names of a registry share its budget.
func TestBudgetsOfOneRegistry(t *testing.T) {
	for _, names := range [][]string{
		{"docker.io/library/nginx", "index.docker.io/team/app", "registry-1.docker.io/a", "docker.io:443/b"},
		{"registry.test/a", "registry.test:443/b", "Registry.Test/c", "registry.test:0443/a/b"},
		{"registry.test:5000/a", "REGISTRY.test:05000/b"},
	} {
		for _, name := range names {
			if got, want := registryOf(name), registryOf(names[0]); got != want {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
	}
}

// Checks that are not made take nothing, however many come at a time.
func TestRefusedChecksTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b budgets
		key := budgetKey{"registry.test", 6}
		granted := func() (n int) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			for range 100 {
				wg.Go(func() {
					if _, ok := b.take(key, false, time.Time{}, "", time.Now(), time.Second); ok {
						mu.Lock()
						defer mu.Unlock()
						n++
					}
				})
			}
			wg.Wait()
			return n
		}
		for i, want := range []int{3, 1, 1} {
			if n := granted(); n != want {
				t.Errorf("round %d: %d checks, want %d", i, n, want)
			}
			time.Sleep(10 * time.Second)
		}
	})
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
