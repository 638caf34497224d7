// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Two controllers at once do no more than one.
func TestTwoControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 20, nil)
		c.lag = 4 * time.Second
		first, second := newController(t, c, io.Discard), newController(t, c, io.Discard)
		c.saved = func() { checkStages(t, c, &first.Options) }
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() { first.Run(ctx) })
		time.Sleep(first.Interval / 2)
		all.Go(func() { second.Run(ctx) })
		all.Wait()
		if got := len(c.phases(Installed)); got != 20 || len(c.installs) != 20 {
			t.Errorf("%d nodes are installed by %q", got, c.installs)
		}
	})
}

// Undone in the middle of a rollout whose controller runs on, no node keeps it, and none
// gets it again.
func TestUndoInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 20, map[int]fate{15: never})
		c.lag = 4 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() { newController(t, c, io.Discard).Run(ctx) })
		time.Sleep(9*time.Minute + 13*time.Second)
		if c.ours() < 3 {
			t.Fatalf("only %d nodes have it", c.ours())
		}
		if err := newController(t, c, io.Discard).Undo(ctx); err != nil {
			t.Error(err)
		}
		installs := len(c.installs)
		time.Sleep(time.Hour)
		if c.ours() != 0 || len(c.installs) != installs {
			t.Errorf("%d nodes have it; %d installs before, %d after", c.ours(), installs, len(c.installs))
		}
		cancel()
		all.Wait()
		again := newController(t, c, io.Discard)
		again.Target = "v2"
		runFor(t, again, time.Hour)
		if c.ours() == 0 {
			t.Error("another target does not begin")
		}
	})
}

// Nodes that the selector has left out since keep what they have, and lose it when all is
// undone; those that it has always left out are never touched.
func TestSelectorIsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 6, nil)
		c.nodes[nodeName(0)].excluded = true
		runFor(t, newController(t, c, io.Discard), time.Hour)
		if c.ours() != 5 || c.summary != "stage 3 of 3: 5 of 5 nodes installed, 0 under way" {
			t.Fatalf("%d nodes have it: %s", c.ours(), c.summary)
		}
		for i := range 3 {
			c.nodes[nodeName(i)].excluded = true
		}
		again := newController(t, c, io.Discard)
		again.Target = "v2"
		runFor(t, again, time.Hour)
		if c.ours() != 5 || len(c.installs) != 8 || c.summary != "stage 3 of 3: 3 of 3 nodes installed, 0 under way" {
			t.Errorf("%d nodes have it by %q: %s", c.ours(), c.installs, c.summary)
		}
		if err := again.Undo(t.Context()); err != nil || c.ours() != 0 || c.nodes[nodeName(0)].attempts != 0 {
			t.Errorf("%d nodes have it: %v", c.ours(), err)
		}
	})
}

func TestUndoOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		if err := newController(t, c, io.Discard).Undo(t.Context()); err != nil || len(c.pods) != 0 {
			t.Errorf("%v, %v", err, c.pods)
		}
		c.down = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := newController(t, c, io.Discard).Undo(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// Whatever nodes, restarts and outages there are: the stages hold, at most one stage's
// nodes are touched after the first failure, and in the end the undoing leaves no node with
// pullwarden.
func TestAnyRollout(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 12).Draw(rt, "nodes")
		fates := map[int]fate{}
		for range rapid.IntRange(0, 2).Draw(rt, "odd ones") {
			fates[rapid.IntRange(0, size-1).Draw(rt, "node")] = rapid.SampledFrom([]fate{refused, brokenOff, killed, never, flaps, stock, hangs, podRemoved}).Draw(rt, "fate")
		}
		rests := rapid.SliceOfN(rapid.IntRange(1, 600), 1, 12).Draw(rt, "seconds between restarts")
		outages := rapid.SliceOfN(rapid.Bool(), len(rests), len(rests)).Draw(rt, "outages")
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, size, fates)
			o := newController(t, c, io.Discard).Options
			failed := false
			c.saved = func() {
				checkStages(t, c, &o)
				for _, r := range c.state.Nodes {
					if r.Phase == Installing && r.Since.Equal(time.Now().UTC().Truncate(time.Second)) && failed {
						t.Error("a node is started after a failure")
					}
				}
				for _, r := range c.state.Nodes {
					failed = failed || r.Phase == Failed || r.Phase == Restoring || r.Phase == Undoing
				}
			}
			for i, seconds := range rests {
				c.down = outages[i]
				runFor(t, newController(t, c, io.Discard), time.Duration(seconds)*time.Second)
			}
			c.down, c.saved = false, func() {}
			if err := newController(t, c, io.Discard).Undo(t.Context()); err != nil || c.ours() != 0 {
				t.Errorf("%d nodes have it: %v", c.ours(), err)
			}
		})
		if t.Failed() {
			rt.Fatalf("see above")
		}
	})
}
