// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const noRoom = "; there is no room for more than the 6 nodes that the state has: "

// Nodes that the state has no room for wait, and the summary says so. The others go on: they settle, get another target,
// make room when they leave, and are undone.
func TestNodesWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 10, nil)
		c.room = 6
		var log strings.Builder
		ctl := newController(t, c, &log)
		c.saved = func() { checkStages(t, c, &ctl.Options) }
		runFor(t, ctl, time.Hour)
		const installed = "stage 3 of 3: 6 of 10 nodes installed, 0 under way"
		if len(c.phases(Installed)) != 6 || c.ours() != 6 || !strings.HasPrefix(c.summary, installed+noRoom) || !strings.Contains(log.String(), installed+noRoom) {
			t.Errorf("%d nodes have it: %s\n%s", c.ours(), c.summary, &log)
		}
		c.saved = func() {}
		ctl = newController(t, c, &log)
		ctl.Target = "v2"
		runFor(t, ctl, time.Hour)
		if len(c.installs) != 12 || !strings.HasPrefix(c.summary, installed+noRoom) {
			t.Errorf("another target is installed on %q: %s", c.installs[6:], c.summary)
		}
		delete(c.nodes, c.installs[0])
		runFor(t, ctl, time.Hour)
		if len(c.installs) != 13 || slices.Contains(c.installs[:12], c.installs[12]) || !strings.HasPrefix(c.summary, "stage 3 of 3: 6 of 9 nodes installed, 0 under way"+noRoom) {
			t.Errorf("in the place of one that has left, installed on %q: %s", c.installs[12:], c.summary)
		}
		for _, n := range c.nodes {
			n.excluded = n.runtime == stockRuntime
		}
		ctl = newController(t, c, &log)
		ctl.Target = "v2"
		runFor(t, ctl, time.Minute)
		if c.summary != "stage 3 of 3: 6 of 6 nodes installed, 0 under way" {
			t.Errorf("with the others left out: %s", c.summary)
		}
		if err := ctl.Undo(t.Context()); err != nil || c.ours() != 0 {
			t.Errorf("%d nodes have it: %v", c.ours(), err)
		}
		if strings.Contains(log.String(), "nothing is done") {
			t.Errorf("a step has failed:\n%s", &log)
		}
	})
}

// A node that fails while others have no room is undone, and stops the rollout.
func TestFailureWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 10, map[int]fate{5: never})
		c.room = 6
		runFor(t, newController(t, c, t.Output()), time.Hour)
		if got := c.phases(Failed); !slices.Equal(got, []string{nodeName(5)}) || c.ours() != 5 || !strings.HasPrefix(c.summary, "stopped: failed on node-005;") {
			t.Errorf("%d nodes have it, failed have %q: %s", c.ours(), got, c.summary)
		}
	})
}
