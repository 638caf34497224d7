// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// A refusal in the background ends the proofs of the caller and of the namespace whose
// pod the pull was for. A pod of another namespace has made a check of its own, and has
// left the download to the one that is under way: nobody has refused it anything.
func TestRefusalInTheBackgroundOfNamespaces(t *testing.T) {
	for identity, want := range map[string][]store.Fingerprint{byNamespace: {teamB}, "": {}} {
		synctest.Test(t, func(t *testing.T) {
			n := changedNode()
			n.pullFails = failure.Forbidden
			if identity == byNamespace {
				n.record.Access = map[store.Fingerprint]store.Proof{}
				for _, namespace := range fingerprints(teamA, teamB) {
					n.record.Access[namespace] = store.Proof{At: now, By: "registry.test"}
				}
			}
			e := n.engine(rule(tenSeconds, identity))
			first := arrive(t, e, n.from(teamA, alice))
			time.Sleep(time.Second)
			second := arrive(t, e, n.from(teamB, alice))
			wantOverdue(t, <-first, 10*time.Second)
			wantOverdue(t, <-second, 10*time.Second)
			time.Sleep(time.Hour)
			wantBackground(t, n, "Failed (forbidden)")
			if left := slices.Collect(maps.Keys(n.record.Access)); len(left) != len(want) || len(left) == 1 && left[0] != want[0] || n.pulls != 1 || n.checks != 2 {
				t.Errorf("%q: left are the proofs of %v, after %d checks and %d pulls", identity, left, n.checks, n.pulls)
			}
		})
	}
}

// A failure within the deadline is judged by its class. One in the background is told, and
// nobody pulls again before the next request; a refusal ends the caller's proof at once.
func TestBackgroundPullFails(t *testing.T) {
	for _, class := range []failure.Class{failure.Unavailable, failure.Forbidden} {
		synctest.Test(t, func(t *testing.T) {
			n := changedNode()
			n.pullFails = class
			e := n.engine(rule(tenSeconds))
			wantOverdue(t, <-arrive(t, e, n.request(nil)), 10*time.Second)
			time.Sleep(time.Hour)
			wantBackground(t, n, "Failed ("+string(class)+")")
			if got := n.stale[name]; got.Reason != store.PullDeadline || n.pulls != 1 {
				t.Errorf("%s: the mark is %+v, %d pulls", class, got, n.pulls)
			}
			if revoked := slices.Contains(n.revoked, alice); revoked != class.Refuses() {
				t.Errorf("%s: revoked are the proofs of %v", class, n.revoked)
			}
			// Without a proof the next one waits for what the registry says.
			a := <-arrive(t, e, n.request(nil))
			if n.pulls != 2 {
				t.Errorf("%s: the next request made %d pulls", class, n.pulls-1)
			}
			if class == failure.Unavailable {
				wantOverdue(t, a, 10*time.Second)
			} else if a.outcome.Kind != Failed || a.outcome.Class != class || a.took != time.Minute {
				t.Errorf("%s: then %s (%s) after %s", class, a.outcome.Kind, a.outcome.Reason, a.took)
			}
			time.Sleep(time.Hour)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		n := changedNode()
		n.pullFails, n.pullTakes = failure.Unavailable, time.Second
		e := n.engine(rule(tenSeconds))
		var line []<-chan arrival
		for i := range 3 { // the second joins the first's check, the third its pull
			line = append(line, arrive(t, e, n.request(nil)))
			time.Sleep(time.Duration(i) * 100 * time.Millisecond)
		}
		for _, one := range line {
			if a := <-one; a.outcome.Kind != UsedCached || a.outcome.Reason != Reason(failure.Unavailable) {
				t.Errorf("in time: %s (%s): %v", a.outcome.Kind, a.outcome.Reason, a.outcome.Err)
			}
		}
		if n.pulls != 1 {
			t.Errorf("in time: %d pulls", n.pulls)
		}
		wantBackground(t, n)
	})
}

// Before its deadline a pull belongs to who waits for it; after that, to the daemon.
func TestWhoEndsAPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := changedNode()
		e := n.engine(rule(tenSeconds))
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
		defer leave()
		if _, err := e.Ensure(ctx, n.request(nil)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who left has %v", err)
		}
		if len(e.pulls.all)+len(e.pulls.joinable) != 0 {
			t.Error("the pull goes on although nobody waits for it")
		}
		wantBackground(t, n)

		ctx, cancel := context.WithCancel(t.Context())
		if o, err := e.Ensure(ctx, n.request(nil)); o.Kind != UsedCached || err != nil {
			t.Errorf("%s, %v", o.Kind, err)
		}
		cancel()
		synctest.Wait()
		if len(e.BackgroundPulls()) != 1 {
			t.Error("the pull has ended with its request")
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		wantBackground(t, n, "Failed (canceled)")
		if a := <-arrive(t, e, n.request(nil)); a.outcome.Kind != Pulled || a.took != time.Minute {
			t.Errorf("after Close: %s (%s) after %s", a.outcome.Kind, a.outcome.Reason, a.took)
		}
	})
}

// A pull does not go on for ever.
func TestBackgroundPullIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := changedNode()
		n.pullTakes = 100 * time.Hour
		e := n.engine(rule(tenSeconds))
		wantOverdue(t, <-arrive(t, e, n.request(nil)), 10*time.Second)
		time.Sleep(backgroundLimit + time.Second)
		wantBackground(t, n, "Failed (pull)")
		if o := n.told(true)[0]; !errors.Is(o.Err, errBackgroundLimit) {
			t.Errorf("told %v", o.Err)
		}
	})
}
