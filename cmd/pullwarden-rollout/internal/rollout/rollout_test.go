// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func amounts(t testing.TB, texts ...string) (all []Amount) {
	t.Helper()
	for _, text := range texts {
		a, err := ParseAmount(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

func newController(t testing.TB, c *cluster, log io.Writer) *Controller {
	return &Controller{
		Options: Options{
			Target: "v1", Stages: amounts(t, "1", "20%", "100%"), MaxUnavailable: amounts(t, "2")[0],
			InstallTimeout: 10 * time.Minute, ReadyTimeout: 5 * time.Minute, SettleTime: time.Minute, Interval: 5 * time.Second,
		},
		Ledger: c, Watcher: c, Runner: c, Log: log,
	}
}

// runFor runs a controller for a while.
func runFor(t *testing.T, c *Controller, d time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	c.Run(ctx)
}

func TestParseAmount(t *testing.T) {
	for _, bad := range []string{"", "0", "-1", "0%", "101%", "x", "1.5", "%", "1 %"} {
		if a, err := ParseAmount(bad); err == nil {
			t.Errorf("%q is %v", bad, a)
		}
	}
	for text, want := range map[string]int{"1": 1, "7": 7, "400": 30, "1%": 1, "10%": 3, "50%": 15, "100%": 30} {
		if got := amounts(t, text)[0].of(30); got != want {
			t.Errorf("%s of 30 is %d, want %d", text, got, want)
		}
	}
}

// All nodes get it, a stage after the other, and one that joins later too.
func TestStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 20, map[int]fate{5: podRemoved})
		var log strings.Builder
		ctl := newController(t, c, &log)
		c.saved = func() { checkStages(t, c, &ctl.Options) }
		runFor(t, ctl, time.Hour)
		if got := len(c.phases(Installed)); got != 20 || c.ours() != 20 {
			t.Fatalf("%d nodes are installed: %s\n%s", got, c.summary, &log)
		}
		if len(c.pods) != 0 {
			t.Errorf("%d pods are left", len(c.pods))
		}
		c.join(20, well)
		runFor(t, ctl, 10*time.Minute)
		if got := len(c.phases(Installed)); got != 21 || c.summary != "stage 3 of 3: 21 of 21 nodes installed, 0 under way" {
			t.Errorf("%d nodes are installed: %s", got, c.summary)
		}
		if len(c.installs) != 22 { // one pod was removed
			t.Errorf("installed on %q", c.installs)
		}
	})
}

// checkStages holds a state to the stages: no node of the next one is touched before all
// of this one are installed, and never more than two at a time.
func checkStages(t *testing.T, c *cluster, o *Options) {
	t.Helper()
	done, busy := 0, 0
	for _, r := range c.state.Nodes {
		switch {
		case r.Phase.underWay():
			busy++
		case r.Phase == Installed:
			done++
		}
	}
	size, _ := o.stage(done, len(c.nodes))
	if busy > 2 || done+busy > size {
		t.Errorf("%d under way, %d done, in a stage of %d", busy, done, size)
	}
}

// The first failure of any kind stops the rollout, and that node is as it was before.
func TestFirstFailureStops(t *testing.T) {
	for f, reason := range map[fate]string{
		refused: "another minor", brokenOff: "cannot go back; the node has not been Ready since", killed: "OOMKilled", never: "not been Ready", flaps: "not been Ready", stock: stockRuntime, hangs: "not ended within",
	} {
		t.Run(string(f), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 20, map[int]fate{2: f})
				var log strings.Builder
				ctl := newController(t, c, &log)
				c.saved = func() { checkStages(t, c, &ctl.Options) }
				runFor(t, ctl, 2*time.Hour)
				r := c.state.Nodes[nodeName(2)]
				if r.Phase != Failed || !strings.Contains(r.Reason, reason) || c.nodes[nodeName(2)].runtime != stockRuntime || !c.nodes[nodeName(2)].ready {
					t.Errorf("%+v, %+v", r, c.nodes[nodeName(2)])
				}
				if len(c.installs) > 4 || len(c.phases(Installed)) < 2 {
					t.Errorf("installed on %q", c.installs)
				}
				if !strings.HasPrefix(c.summary, "stopped: failed on node-002;") || !strings.Contains(log.String(), reason) {
					t.Errorf("%s\n%s", c.summary, &log)
				}
				before := len(c.installs)
				c.nodes[nodeName(2)].fate = well
				again := newController(t, c, &log)
				runFor(t, again, time.Hour)
				if len(c.installs) != before {
					t.Error("a restart goes on after the failure")
				}
				again.Target = "v1#2"
				runFor(t, again, 2*time.Hour)
				if got := len(c.phases(Installed)); got != 20 {
					t.Errorf("%d nodes with another target: %s", got, c.summary)
				}
			})
		})
	}
}

// A node that cannot be undone is told of, by the rollout and by the undoing of it all.
func TestStuckNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 10, map[int]fate{1: notUndone})
		ctl := newController(t, c, io.Discard)
		runFor(t, ctl, time.Hour)
		if got := c.phases(Stuck); len(got) != 1 || !strings.Contains(c.state.Nodes[nodeName(1)].Reason, "no way back") {
			t.Errorf("stuck are %q: %s", got, c.summary)
		}
		if err := ctl.Undo(t.Context()); err == nil || !strings.Contains(err.Error(), nodeName(1)) {
			t.Errorf("got %v", err)
		}
		c.nodes[nodeName(1)].fate = well
		if err := newController(t, c, io.Discard).Undo(t.Context()); err != nil || c.ours() != 0 {
			t.Errorf("%d nodes have it: %v", c.ours(), err)
		}
	})
}

// An image that cannot be pulled, neither to install nor to undo, is mended by another one.
func TestImageThatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, map[int]fate{0: unpulled})
		ctl := newController(t, c, io.Discard)
		runFor(t, ctl, time.Hour)
		if len(c.phases(Stuck)) != 1 || !strings.HasPrefix(c.summary, "stopped: failed on node-000;") {
			t.Errorf("the rollout has not stopped: %s", c.summary)
		}
		if r := c.state.Nodes[nodeName(0)]; strings.Count(r.Reason, "ImagePullBackOff") != 2 {
			t.Errorf("the reason is %q", r.Reason)
		}
		c.nodes[nodeName(0)].fate = well
		ctl = newController(t, c, io.Discard)
		ctl.Target = "v2"
		runFor(t, ctl, time.Hour)
		if c.ours() != 5 || c.summary != "stage 3 of 3: 5 of 5 nodes installed, 0 under way" {
			t.Errorf("%d nodes have it: %s", c.ours(), c.summary)
		}
	})
}

// Nodes that are not Ready before are passed over, and no reason to stop.
func TestNotReadyBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, nil)
		c.nodes[nodeName(0)].ready = false
		ctl := newController(t, c, io.Discard)
		runFor(t, ctl, time.Hour)
		if got := len(c.phases(Installed)); got != 4 {
			t.Errorf("%d nodes are installed", got)
		}
		c.nodes[nodeName(0)].ready, c.nodes[nodeName(0)].changed = true, time.Now()
		runFor(t, ctl, time.Hour)
		if got := len(c.phases(Installed)); got != 5 {
			t.Errorf("%d nodes are installed", got)
		}
	})
}

// An API server that is away for longer than all limits fails no node.
func TestAPIServerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		var log strings.Builder
		ctl := newController(t, c, &log)
		for range 4 {
			runFor(t, ctl, 50*time.Second)
			c.down = true
			runFor(t, ctl, time.Hour)
			c.down = false
		}
		runFor(t, ctl, time.Hour)
		if got := len(c.phases(Installed)); got != 3 {
			t.Errorf("%d nodes are installed: %s", got, c.summary)
		}
		if n := strings.Count(log.String(), errDown.Error()); n != 4 {
			t.Errorf("it was told of %d times", n)
		}
	})
}
