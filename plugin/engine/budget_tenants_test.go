// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// However many registries tenants name, a bounded number of budgets is kept, and nobody has
// a new one by that.
func TestBudgetsAreBounded(t *testing.T) {
	var b budgets
	now := time.Now()
	used := budgetKey{"registry.test", 6}
	for range 3 {
		b.take(used, false, time.Time{}, "", now, 0)
	}
	for i := range 4 * maxBudgets {
		now = now.Add(time.Millisecond)
		b.take(budgetKey{fmt.Sprintf("%d.test", i), 6}, false, time.Time{}, "", now, 0)
	}
	if n := len(b.all); n != maxBudgets {
		t.Errorf("%d budgets are kept", n)
	}
	if _, ok := b.take(used, false, time.Time{}, "", now, 0); ok {
		t.Error("a budget that was used up is forgotten")
	}
}

// A tenant whose pods start all the time leaves others their checks; alone it has all.
func TestBudgetsAreShared(t *testing.T) {
	for what, tenants := range map[string][]string{"one tenant": {"loud"}, "two tenants": {"loud", "louder"}} {
		t.Run(what, func(t *testing.T) {
			var b budgets
			now, key := time.Now(), budgetKey{"registry.test", 12}
			loud := 0
			flood := func(d time.Duration) {
				for end := now.Add(d); now.Before(end); now = now.Add(100 * time.Millisecond) {
					for _, namespace := range tenants {
						if _, ok := b.take(key, false, time.Time{}, namespace, now, 0); ok {
							loud++
						}
					}
				}
			}
			flood(time.Minute)
			if len(tenants) == 1 && loud < 6+11 {
				t.Errorf("%d checks of who is alone", loud)
			}
			b.take(key, false, time.Time{}, "quiet", now, 0) // may be too late
			loud = 0
			for i := range 20 {
				flood(time.Minute)
				if _, ok := b.take(key, false, time.Time{}, "quiet", now, 0); !ok {
					t.Errorf("start %d: the others have used all up", i)
				}
			}
			if loud < 20*10 {
				t.Errorf("%d checks of the others in 20 minutes", loud)
			}
		})
	}
}

// A tenant whose pods start all the time leaves others a share of what may be checked at once,
// and not a single check: several of their pods may start together.
func TestSharesOfABudget(t *testing.T) {
	for _, test := range []struct{ perMinute, namespaces, share int }{
		{4, 1, 1}, {6, 1, 1}, {12, 1, 3}, {30, 1, 7}, {60, 1, 15}, {120, 1, 30},
		{12, 2, 2}, {24, 2, 4}, {18, 3, 1}, {36, 3, 4}, {48, 4, 4}, {48, 8, 2},
	} {
		var b budgets
		now, key := time.Now(), budgetKey{"registry.test", test.perMinute}
		take := func(namespace string) bool {
			_, ok := b.take(key, false, time.Time{}, namespace, now, 0)
			return ok
		}
		take("quiet")
		for round := range 3 {
			for end := now.Add(3 * time.Minute); now.Before(end); now = now.Add(100 * time.Millisecond) {
				for i := range test.namespaces {
					take(fmt.Sprintf("loud-%d", i))
				}
			}
			share := 0
			for take("quiet") {
				share++
			}
			if share < test.share {
				t.Errorf("%d a minute, beside %d: round %d: %d checks at once, want %d", test.perMinute, test.namespaces, round, share, test.share)
			}
		}
	}
}

// A tenant whose pods start all the time leaves a share also to who starts but once a day, and
// finds nobody else there for the rest of it.
func TestBudgetOfWhoSeldomStarts(t *testing.T) {
	const longest = 2 * time.Second
	for _, every := range []time.Duration{50 * time.Minute, 2 * time.Hour, 24 * time.Hour} {
		var b budgets
		now, key := time.Now(), budgetKey{"registry.test", 30}
		take := func(namespace string) bool {
			_, ok := b.take(key, false, time.Time{}, namespace, now, longest)
			return ok
		}
		take("nightly")
		for round := range 3 {
			for end := now.Add(every); now.Before(end); now = now.Add(time.Second) {
				take("loud")
			}
			share := 0
			for take("nightly") {
				share++
			}
			if share < 7 {
				t.Errorf("every %v: round %d: %d checks at once, want 7", every, round, share)
			}
		}
	}
}

// A pod that has much time stands in the way of nobody.
func TestBudgetIsNotReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		e := budgeted(n, "6", `hints = "Allow"`)
		patient := n.request(map[string]string{"pullwarden.io/verify-timeout": "2m"})
		for i := range 6 {
			began := time.Now()
			if o, err := e.Ensure(t.Context(), patient); err != nil || (o.Kind == Unchanged) != (i < 3) || time.Since(began) > maxTurnWait {
				t.Errorf("start %d: %s after %v, %v", i, o.Kind, time.Since(began), err)
			}
		}
		time.Sleep(10 * time.Second)
		if o, err := e.Ensure(t.Context(), n.request(nil)); err != nil || o.Kind != Unchanged {
			t.Errorf("%s, %v", o.Kind, err)
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

// A tenant that names many registries has nobody's share forgotten of one that the operator has named.
func TestManyRegistriesTakeNoShare(t *testing.T) {
	const named = true
	var b budgets
	now, key := time.Now(), budgetKey{"registry.test", 12}
	b.take(key, named, time.Time{}, "quiet", now, 0)
	for round := range 3 {
		now = now.Add(time.Minute) // the budget is whole again
		for i := range 2 * maxBudgets {
			b.take(budgetKey{fmt.Sprintf("%d.test", i), 12}, false, time.Time{}, fmt.Sprintf("loud-%d", i%2), now, 0)
		}
		for range 100 {
			b.take(key, named, time.Time{}, "loud-0", now, 0)
		}
		if _, ok := b.take(key, named, time.Time{}, "quiet", now, 0); !ok {
			t.Errorf("round %d: the other has used all up", round)
		}
	}
}

// A registry is named as for places in the background: by a hosts.toml, or by a rule.
func TestBudgetsOfNamedRegistries(t *testing.T) {
	for _, named := range []bool{false, true} {
		n := &node{named: named}
		e := budgeted(n, "60")
		if _, err := e.Ensure(t.Context(), n.request(nil)); err != nil {
			t.Fatal(err)
		}
		for key, of := range e.budgets.all {
			if of.named != named {
				t.Errorf("%v: named %t, want %t", key, of.named, named)
			}
		}
	}
}

// A pod whose cached image a verifier refuses starts from the registry's, as without a budget.
func TestBudgetAndAVerifier(t *testing.T) {
	for what, test := range map[string]struct {
		remote ocispec.Descriptor
		want   Kind
		reason Reason
	}{"changed": {second, Pulled, ReasonChanged}, "unchanged": {first, Failed, ReasonVerifier}} {
		n := &node{}
		e := budgeted(n, "1")
		n.remote = test.remote
		e.Started, e.Now = now, func() time.Time { return now } // nothing is left
		e.VerifyImage = func(_ context.Context, _ string, target ocispec.Descriptor) error {
			if target.Digest == first.Digest {
				return errTest
			}
			return nil
		}
		o, err := e.Ensure(t.Context(), n.request(nil))
		if o.Kind != test.want || o.Reason != test.reason || (err == nil) != (test.want == Pulled) || n.checks != 1 || o.Class != failure.None {
			t.Errorf("%s: %s %s (%s) after %d checks, %v", what, o.Kind, o.Reason, o.Class, n.checks, err)
		}
	}
}
