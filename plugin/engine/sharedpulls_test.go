// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/store"
)

// Other callers get the cached image without a pull of their own behind the one in the
// background; one for a digest that was pushed meanwhile waits for its turn, and only one.
func TestBackgroundPullsOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := changedNode()
		n.record.Access[bob] = store.Proof{At: now, By: "registry.test"}
		e := n.engine(rule(tenSeconds))
		bobs, nobodys := n.request(nil), n.request(nil)
		bobs.Caller, nobodys.Caller = bob, ""
		one := arrive(t, e, n.request(nil))
		time.Sleep(time.Second) // the deadline of that is over first
		two := arrive(t, e, bobs)
		wantOverdue(t, <-one, 10*time.Second)
		wantOverdue(t, <-two, 10*time.Second)
		if a := <-arrive(t, e, nobodys); a.outcome.Kind != Pulled && a.outcome.Kind != Unchanged {
			t.Errorf("who cannot be told apart: %s (%s)", a.outcome.Kind, a.outcome.Reason)
		}
		time.Sleep(time.Hour)
		wantBackground(t, n, "Pulled (changed)")
		if n.pulls != 1 {
			t.Errorf("%d pulls", n.pulls)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := changedNode()
		e := n.engine(rule(tenSeconds))
		wantOverdue(t, <-arrive(t, e, n.request(nil)), 10*time.Second)
		for _, pushed := range []string{"third", "fourth"} { // a tag that keeps moving
			n.push(image(pushed))
			if a := <-arrive(t, e, n.request(nil)); a.outcome.Kind != UsedCached || a.outcome.Awaited != image(pushed).Digest {
				t.Errorf("%s: %s (%s)", pushed, a.outcome.Kind, a.outcome.Reason)
			}
		}
		if all := e.BackgroundPulls(); len(all) != 2 || !all[0].Begun || all[1].Begun || all[1].Digest != image("third").Digest {
			t.Errorf("under way: %+v", all)
		}
		time.Sleep(time.Hour)
		wantBackground(t, n, "Pulled (changed)", "Pulled (changed)")
		if n.pulls != 2 || n.record.Target.Digest != image("third").Digest {
			t.Errorf("%d pulls, the node has %s", n.pulls, n.record.Target.Digest)
		}
	})
}
