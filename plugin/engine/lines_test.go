// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// A namespace that has proved the image needs no manifest of it: that the registry does not deliver
// that to another namespace with the same credentials, which has proved nothing, is no failure of
// its pull.
func TestProvedNamespaceSharesNoFailureOfTheUnproved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, unrunnable: true, record: cachedImage(second, now)}
		n.onRead = func() error { return resolver.ErrNoProgress }
		n.record.Access = map[store.Fingerprint]store.Proof{"proved": {At: now, By: "registry.test"}}
		e := n.engine(rule(`policy = "Always"`, `access_identity = "Namespace"`))
		e.Observe = nil
		_, unlock, err := e.turns.Lock(t.Context(), name, 0) // somebody else's pull
		if err != nil {
			t.Fatal(err)
		}
		var all []<-chan arrival
		for _, namespace := range []store.Fingerprint{"unproved", "proved", "unproved"} {
			req := n.request(nil)
			req.PodNamespace = namespace
			all = append(all, arrive(t, e, req))
			time.Sleep(time.Second)
		}
		unlock()
		for i, want := range []Kind{Failed, Pulled, Failed} {
			if a := <-all[i]; a.outcome.Kind != want {
				t.Errorf("request %d: %s (%s) %v", i, a.outcome.Kind, a.outcome.Reason, a.outcome.Err)
			}
		}
	})
}

// Downloads that come to nothing, for which a tenant asks by hints that differ, hold up others for
// the one under way and for one more, as if the hints were equal.
func TestLineOfUnequalHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stalls = 5 * time.Minute
		n := &node{record: cachedImage(first, now), remote: second, pullTakes: stalls, pullFails: failure.Unreachable}
		n.record.Access[bob] = store.Proof{At: now, By: "registry.test"}
		e := n.engine(rule(`policy = "IfDigestChanged"`, `hints = "Tighten"`))
		e.Observe = nil
		for i := range 30 {
			req := n.request(map[string]string{"pullwarden.io/max-stale": fmt.Sprintf("%dh", 100+i)})
			req.PodNamespace = "tenant"
			arrive(t, e, req)
			time.Sleep(time.Second)
		}
		others := n.request(nil)
		others.Caller, others.PodNamespace = bob, "other"
		if a := <-arrive(t, e, others); a.outcome.Kind != UsedCached || a.took > 3*stalls {
			t.Errorf("%s (%s) after %s: %v", a.outcome.Kind, a.outcome.Reason, a.took, a.outcome.Err)
		}
		time.Sleep(stalls) // nothing is under way any more
	})
}

// A refusal that is shared is old by then: it takes no proof away that a host has given since the
// download was refused, which took away those before.
func TestSharedRefusalEndsNoLaterProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, record: cachedImage(first, now), pullTakes: time.Minute, pullFails: failure.Forbidden}
		e := n.engine(rule(`policy = "Always"`))
		e.Now, e.Observe = time.Now, nil
		later := store.Proof{At: now.Add(time.Hour), By: "registry.test"}
		n.onPull = func() {
			if n.pulls == 2 { // bob's
				n.pullFails = failure.Unavailable
				n.record.Access = map[store.Fingerprint]store.Proof{alice: later} // by another tag
			}
		}
		_, unlock, err := e.turns.Lock(t.Context(), name, 0) // somebody else's pull
		if err != nil {
			t.Fatal(err)
		}
		var all []<-chan arrival
		for _, caller := range []Caller{alice, bob, alice} {
			req := n.request(nil)
			req.Caller = caller
			all = append(all, arrive(t, e, req))
			time.Sleep(time.Second)
		}
		unlock()
		for i, want := range []failure.Class{failure.Forbidden, failure.Unavailable, failure.Forbidden} {
			if a := <-all[i]; a.outcome.Kind != Failed || a.outcome.Class != want {
				t.Errorf("request %d: %s (%s) %v", i, a.outcome.Kind, a.outcome.Class, a.outcome.Err)
			}
		}
		if n.pulls != 2 || n.record.Access[alice] != later {
			t.Errorf("%d pulls, proved %v", n.pulls, n.record.Access)
		}
	})
}
