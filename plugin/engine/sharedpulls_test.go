// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/store"
)

// Beyond the bound a request waits for its pull, until another one has ended.
func TestBackgroundPullsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := changedNode()
		e := n.engine(rule("policy = \"IfDigestChanged\"\npull_deadline = \"0s\""))
		of := func(i int) Request {
			req := n.request(nil)
			req.Name = fmt.Sprintf("%s-%d", name, i)
			return req
		}
		for i := range maxBackground {
			wantOverdue(t, <-arrive(t, e, of(i)), 0)
			time.Sleep(time.Second)
		}
		// The fake node has one record for all names, which the first pull moves.
		waits := arrive(t, e, of(maxBackground))
		time.Sleep(10 * time.Second)
		if got := len(e.BackgroundPulls()); got != maxBackground {
			t.Errorf("%d in the background", got)
		}
		select {
		case a := <-waits:
			t.Errorf("one more did not wait: %s (%s)", a.outcome.Kind, a.outcome.Reason)
		default:
		}
		if a := <-waits; a.outcome.Kind == Failed || a.outcome.Digest != second.Digest {
			t.Errorf("one more: %s (%s)", a.outcome.Kind, a.outcome.Reason)
		}
		time.Sleep(time.Hour)
		if len(e.pulls.all)+len(e.pulls.joinable)+e.pulls.kept != 0 {
			t.Errorf("left behind: %+v", &e.pulls)
		}
	})
}

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
