// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// A request that begins anew since a later answer was acted upon has waited already: pull_deadline
// bounds the whole of it.
func TestDeadlineOfARequestThatBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, record: cachedImage(first, time.Now().Add(-2*time.Hour)), pullTakes: 9 * time.Second}
		e := n.engine(rule(`policy = "IfDigestChanged"`, `pull_deadline = "10s"`))
		e.Now, e.Observe = time.Now, nil
		n.onPull = func() { setBack(e) } // for a moment
		a := <-arrive(t, e, n.request(nil))
		if a.took > 11*time.Second {
			t.Errorf("under pull_deadline=10s: %s (%s) after %s and %d pulls", a.outcome.Kind, a.outcome.Reason, a.took, n.pulls)
		}
		time.Sleep(time.Minute)
	})
}

// Nor does a request wait once more that begins anew since an answer that came earlier is acted upon
// later.
func TestDeadlineAndAnOlderAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, record: cachedImage(first, time.Now().Add(-2*time.Hour)), pullTakes: 8 * time.Second}
		third := image("third")
		e := n.engine(rule(`policy = "IfDigestChanged"`))
		e.Now, e.Observe = time.Now, nil
		alices := n.request(nil)
		puller := arrive(t, e, alices) // pulls second, until 8s
		time.Sleep(time.Second)
		checks := 0
		n.onCheck = func() {
			if checks++; checks == 1 {
				time.Sleep(time.Second) // carol's
			}
		}
		carols := n.request(map[string]string{"pullwarden.io/pull-deadline": "10s"})
		carols.Caller, carols.PodNamespace = alice, "carol"
		c := arrive(t, e, carols) // asks at 1s, is told of third at 2s
		bobs := n.request(nil)
		bobs.PodNamespace = "bob"
		b := arrive(t, e, bobs) // asks at 1s, and is told of second at once
		time.Sleep(500 * time.Millisecond)
		n.push(third)
		<-puller
		if b := <-b; b.outcome.Digest != second.Digest {
			t.Fatalf("bob: %s", b.outcome.Kind)
		}
		if c := <-c; c.took > 12*time.Second {
			t.Errorf("carol, who was told of the newest one, under pull_deadline=10s: %s (%s) after %s, %d checks", c.outcome.Kind, c.outcome.Reason, c.took, n.checks)
		}
		time.Sleep(time.Minute)
	})
}

// Of two requests that begin anew each has what is left of its own pull_deadline.
func TestDeadlinesOfTwoThatBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, record: cachedImage(first, time.Now().Add(-2*time.Hour)), pullTakes: 9 * time.Second}
		e := n.engine(rule(`policy = "IfDigestChanged"`, `pull_deadline = "10s"`))
		e.Now, e.Observe = time.Now, nil
		slowLater(n, 200*time.Millisecond)
		early := arrive(t, e, n.request(nil))
		time.Sleep(8 * time.Second)
		late := arrive(t, e, n.request(nil))
		time.Sleep(500 * time.Millisecond)
		setBack(e)
		a, b := <-early, <-late
		if a.took > 11*time.Second {
			t.Errorf("early: %s", a.took)
		}
		if b.outcome.Digest != second.Digest {
			t.Errorf("late, which came at 8s, under pull_deadline=10s: %s (%s) after %s, for a pull that ends 4s after it came", b.outcome.Kind, b.outcome.Reason, b.took)
		}
		time.Sleep(time.Minute)
	})
}

// Nor has a request that has just come that of one that begins anew, where a mirror has answered both in need.
func TestDeadlineOfWhoComesAsOneBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, inNeed: true, record: cachedImage(first, time.Now().Add(-2*time.Hour)), pullTakes: 9 * time.Second}
		e := n.engine(rule(`policy = "IfDigestChanged"`, `pull_deadline = "10s"`, inNeed))
		e.Now, e.Observe = time.Now, nil
		slowLater(n, 300*time.Millisecond)
		early := arrive(t, e, n.request(nil))
		time.Sleep(8500 * time.Millisecond)
		setBack(e)
		time.Sleep(600 * time.Millisecond)
		late := arrive(t, e, n.request(nil))
		<-early
		b := <-late
		if b.outcome.Digest != second.Digest {
			t.Errorf("late: %s (%s) after %s, coalesced %v", b.outcome.Kind, b.outcome.Reason, b.took, b.outcome.Coalesced)
		}
		time.Sleep(time.Minute)
	})
}

// slowLater has checks take so long from the ninth second on, and pulls 3s.
func slowLater(n *node, checks time.Duration) {
	began := time.Now()
	later := func() bool { return time.Since(began) >= 8500*time.Millisecond }
	n.onCheck = func() {
		if later() {
			time.Sleep(checks)
		}
	}
	n.onPull = func() {
		if later() {
			n.pullTakes = 3 * time.Second
		}
	}
}
