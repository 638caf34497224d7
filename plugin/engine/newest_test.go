// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// A request that was held up after its answer does not store that over a newer one which another
// has pulled meanwhile.
func TestOlderAnswerIsNotStoredOverANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, record: cachedImage(first, time.Now().Add(-2*time.Hour)), forgotten: true}
		third := image("third")
		calls := 0
		n.onCheck = func() {
			if calls++; calls == 2 { // whether bob may have the cached digest
				time.Sleep(3 * time.Second)
			}
		}
		e := n.engine(rule(`policy = "IfDigestChanged"`, `max_age = "1h"`))
		e.Now, e.Observe = time.Now, nil
		bobs := n.request(map[string]string{"pullwarden.io/policy": "IfNotPresent"})
		bobs.Caller = bob
		b := arrive(t, e, bobs)
		time.Sleep(time.Second)
		n.push(third)
		if a := <-arrive(t, e, n.request(nil)); a.outcome.Kind != Pulled || a.outcome.Digest != third.Digest {
			t.Fatalf("alice: %s %v", a.outcome.Kind, a.outcome.Err)
		}
		if a := <-arrive(t, e, n.request(nil)); a.outcome.Kind != Fresh || a.outcome.Digest != third.Digest {
			t.Fatalf("alice, inside max_age: %s %v", a.outcome.Kind, a.outcome.Err)
		}
		if b := <-b; b.outcome.Kind != Unchanged || b.outcome.Digest != third.Digest {
			t.Errorf("bob: %s (%s) %v", b.outcome.Kind, b.outcome.Reason, b.outcome.Err)
		}
		if a := <-arrive(t, e, n.request(nil)); a.outcome.Kind != Fresh || a.outcome.Digest != third.Digest {
			t.Errorf("alice, after that: %s, with the image before the one that she was told of", a.outcome.Kind)
		}
		if n.pulls != 1 || e.newest.logs.Len() != 0 {
			t.Errorf("%d pulls, %d names are remembered", n.pulls, e.newest.logs.Len())
		}
	})
}

// A mirror that has answered in the place of the registry does not take the name from what the
// registry has said to another request since, by a pull that ends later.
func TestMirrorsAnswerOverTheRegistrysLaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, inNeed: true, record: cachedImage(first, time.Now().Add(-2*time.Hour)), pullTakes: time.Minute}
		e := n.engine(rule(`policy = "IfDigestChanged"`, inNeed))
		e.Now, e.Observe = time.Now, nil
		a := arrive(t, e, n.request(nil))
		time.Sleep(10 * time.Second)
		n.mu.Lock()
		n.inNeed, n.remote = false, first // the registry is back
		n.mu.Unlock()
		if b := <-arrive(t, e, n.request(nil)); b.outcome.Kind != Unchanged || b.outcome.Digest != first.Digest {
			t.Fatalf("once the registry has answered: %s %v", b.outcome.Kind, b.outcome.Err)
		}
		if a := <-a; a.outcome.Kind != Unchanged || a.outcome.Digest != first.Digest {
			t.Errorf("who was told by the mirror: %s (%s)", a.outcome.Kind, a.outcome.Reason)
		}
		n.mu.Lock()
		n.checkFails = failure.Unreachable
		n.mu.Unlock()
		c := <-arrive(t, e, n.request(nil))
		if c.outcome.Digest != first.Digest {
			t.Errorf("later: %s (%s) with the mirror's image, the registry has confirmed the other one since", c.outcome.Kind, c.outcome.Reason)
		}
	})
}

// slowUnpack is a runtime whose snapshotter takes its time.
type slowUnpack struct{ *node }

func (s slowUnpack) Complete(ctx context.Context, target ocispec.Descriptor, plan *pwtransfer.Plan) error {
	time.Sleep(10 * time.Second)
	return s.node.Complete(ctx, target, plan)
}

// A tenant whose runtime handler unpacks slowly does not set others back to an older image by the
// hint pull-deadline: while it unpacks it has the turn for which a newer answer waits, and its own
// pull comes after that.
func TestTenantSetsNoNameBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, record: cachedImage(first, time.Now().Add(-2*time.Hour)), packed: true}
		third := image("third")
		e := n.engine(rule(`policy = "IfDigestChanged"`, `max_age = "1h"`, `access = "Any"`))
		e.Now, e.Observe = time.Now, nil
		tenants := n.request(map[string]string{"pullwarden.io/pull-deadline": "1h"})
		tenants.Runtime, tenants.PodNamespace = slowUnpack{n}, "tenant"
		a := arrive(t, e, tenants)
		time.Sleep(time.Second)
		n.push(third)
		others := n.request(nil)
		others.Caller, others.PodNamespace = bob, "other"
		if b := <-arrive(t, e, others); b.outcome.Kind != Pulled || b.outcome.Digest != third.Digest {
			t.Fatalf("who is told of the newer one: %s %v", b.outcome.Kind, b.outcome.Err)
		}
		if a := <-a; a.outcome.Digest != third.Digest {
			t.Errorf("the tenant: %s (%s), with the older one", a.outcome.Kind, a.outcome.Reason)
		}
		if b := <-arrive(t, e, others); b.outcome.Kind != Fresh || b.outcome.Digest != third.Digest {
			t.Errorf("the next pod: %s, with the image before that of its own last check", b.outcome.Kind)
		}
	})
}

// A request begins anew where a later answer says something else, and goes by its own the last time:
// a registry may tell others so again and again. What a host says that a rule asks in another order is no
// such answer.
func TestAnswersThatChangeAgainAndAgain(t *testing.T) {
	for what, tc := range map[string]struct {
		by    string
		pulls int
	}{
		"by the same host": {"registry.test", maxWalks},
		"by another one":   {"mirror.test", 1},
	} {
		n := &node{remote: second, record: cachedImage(first, now)}
		e := n.engine(rule(`policy = "IfDigestChanged"`))
		n.onPull = func() { // another request is told that the tag has been set back
			tellAnother(e, store.Verified{Digest: first.Digest, By: tc.by})
		}
		o, err := e.Ensure(t.Context(), n.request(nil))
		if o.Kind != Pulled || n.pulls != tc.pulls || n.record.Target.Digest != second.Digest {
			t.Errorf("%s: %s (%s) after %d pulls: %v", what, o.Kind, o.Reason, n.pulls, err)
		}
	}
}
