// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// setBack lets another request be told by the registry that the tag has been set back.
func setBack(e *Engine) {
	tellAnother(e, store.Verified{Digest: first.Digest, By: "registry.test", Origin: true})
}

// tellAnother lets another request ask, and act upon that answer.
func tellAnother(e *Engine, v store.Verified) {
	q := e.newest.question(name, false)
	defer q.end()
	q.ask()
	q.answer()
	other := answer{question: q, verified: v}
	other.actUpon()
}

// A mirror's proof counts in no request in which the registry has answered, also where that begins
// anew, inside max_age of the check that another caller has made meanwhile.
func TestMirrorsProofInsideMaxAgeAnew(t *testing.T) {
	n := &node{remote: second, record: cachedImage(first, now.Add(-2*time.Hour))}
	n.record.Access[alice] = store.Proof{At: now.Add(-2 * time.Hour), By: "mirror.test"}
	e := n.engine(rule(`policy = "IfDigestChanged"`, `max_age = "1h"`, inNeed))
	n.onPull = func() {
		n.onPull = nil
		setBack(e)
		n.mu.Lock()
		n.record.Verified = store.Verified{Digest: first.Digest, At: now, By: "registry.test"}
		n.mu.Unlock()
	}
	o, err := e.Ensure(t.Context(), n.request(nil))
	if o.Kind == Fresh {
		t.Errorf("%s (%s) %v after %d checks, by the proof of a mirror alone", o.Kind, o.Reason, err, n.checks)
	}
}

// A request that the registry has never answered shares no check with an equal one that the registry
// had answered before it began anew: what proofs of mirrors are worth to the two differs.
func TestWhoBeginsAnewSharesNoCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, record: cachedImage(first, time.Now().Add(-2*time.Hour))}
		n.record.Access[alice] = store.Proof{At: time.Now().Add(-2 * time.Hour), By: "mirror.test"}
		e := n.engine(rule(`policy = "IfDigestChanged"`, inNeed))
		e.Now, e.Observe = time.Now, nil
		n.onPull = func() {
			n.onPull = nil
			time.Sleep(time.Second)
			setBack(e)
			n.mu.Lock()
			n.checkFails = failure.Unreachable // the registry is silent from now on
			n.mu.Unlock()
			n.onCheck = func() { time.Sleep(3 * time.Second) }
		}
		a := arrive(t, e, n.request(nil))
		time.Sleep(1200 * time.Millisecond)
		b := <-arrive(t, e, n.request(nil))
		<-a
		if b.outcome.Kind != UsedCached {
			t.Errorf("who came while the registry was silent, with a mirror's proof: %s (%s) coalesced %v: %v", b.outcome.Kind, b.outcome.Reason, b.outcome.Coalesced, b.outcome.Err)
		}
		if c := <-arrive(t, e, n.request(nil)); c.outcome.Kind != UsedCached {
			t.Errorf("the same, later: %s", c.outcome.Kind)
		}
	})
}
