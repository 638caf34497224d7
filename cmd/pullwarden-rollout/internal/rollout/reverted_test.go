// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A node that runs a runtime without pullwarden since it was installed, as a machine that is set up anew under its Node object,
// is not done any more. It is told of once, and left so until another target, or until somebody installs it by hand.
func TestNodeThatIsReverted(t *testing.T) {
	const told, without = "node node-001: Reverted: ", "; installed before, and without it now: node-001"
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		var log strings.Builder
		ctl := newController(t, c, &log)
		runFor(t, ctl, time.Hour)
		b := c.nodes[nodeName(1)]
		for _, down := range []string{"containerd://Unknown", ""} { // a runtime that does not answer is no other one
			b.runtime = down
			runFor(t, ctl, 10*time.Minute)
			if c.summary != "stage 3 of 3: 3 of 3 nodes installed, 0 under way" {
				t.Errorf("with the runtime %q: %s", down, c.summary)
			}
		}
		b.runtime = stockRuntime
		runFor(t, ctl, time.Hour)
		b.runtime = "containerd://Unknown" // nor is it pullwarden again
		runFor(t, ctl, 10*time.Minute)
		b.runtime = stockRuntime
		again := newController(t, c, &log)
		runFor(t, again, time.Hour)
		if len(c.installs) != 3 || c.summary != "stage 3 of 3: 2 of 3 nodes installed, 0 under way"+without || strings.Count(log.String(), told) != 1 {
			t.Errorf("installed on %q: %s\n%s", c.installs, c.summary, &log)
		}
		c.join(3, well)
		runFor(t, again, time.Hour)
		if c.summary != "stage 3 of 3: 3 of 4 nodes installed, 0 under way"+without {
			t.Errorf("after another node has joined: %s", c.summary)
		}
		b.runtime = ourRuntime
		runFor(t, again, 10*time.Minute)
		if c.summary != "stage 3 of 3: 4 of 4 nodes installed, 0 under way" {
			t.Errorf("installed by hand: %s", c.summary)
		}
		b.runtime = stockRuntime
		runFor(t, again, 10*time.Minute)
		again.Target = "v1#1"
		runFor(t, again, time.Hour)
		if b.runtime != ourRuntime || c.summary != "stage 3 of 3: 4 of 4 nodes installed, 0 under way" {
			t.Errorf("with another target it runs %s: %s", b.runtime, c.summary)
		}
	})
}

// A reverted node keeps its place in the stage, so that no node of the next one is touched, until it is left out. Where it
// registers anew it is installed, as each node that joins.
func TestStageOfARevertedNode(t *testing.T) {
	t.Parallel()
	a := Node{Name: "a", UID: "a1", Ready: true, Runtime: stockRuntime}
	b := Node{Name: "b", UID: "b1", Ready: true, Runtime: stockRuntime}
	ctl := newController(t, nil, nil)
	s := State{Nodes: map[string]Record{"a": {UID: "a1", Phase: Installed, Target: "v1", Since: time.Now().Add(-time.Hour)}}}
	for range 3 {
		s = nextOf(ctl, s, a, b)
	}
	if summary := ctl.summary(&s, &World{Nodes: []Node{a, b}}); len(s.Nodes) != 1 || s.Nodes["a"].Phase != Reverted ||
		summary != "stage 1 of 3: 0 of 2 nodes installed, 0 under way; installed before, and without it now: a" {
		t.Errorf("%+v: %s", s.Nodes, summary)
	}
	anew, out := a, a
	anew.UID, out.Excluded = "a2", true
	if s := nextOf(ctl, s, anew, b); len(s.Nodes) != 1 || s.Nodes["a"].Phase != Installing {
		t.Errorf("registered anew: %+v", s.Nodes)
	}
	s = nextOf(ctl, s, out, b)
	if summary := ctl.summary(&s, &World{Nodes: []Node{out, b}}); s.Nodes["b"].Phase != Installing || summary != "stage 1 of 3: 0 of 1 nodes installed, 1 under way" {
		t.Errorf("left out: %+v: %s", s.Nodes, summary)
	}
}

// The summary names some reverted nodes of very many, also once another one has failed. All of them are undone with the others.
func TestManyRevertedNodes(t *testing.T) {
	t.Parallel()
	ctl := newController(t, nil, nil)
	s := State{Nodes: map[string]Record{}}
	var nodes []Node
	for i := range 30 {
		n := Node{Name: nodeName(i), UID: nodeName(i), Ready: true, Runtime: stockRuntime}
		s.Nodes[n.Name] = Record{UID: n.UID, Phase: Installed, Target: "v1", Since: time.Now().Add(-time.Hour)}
		nodes = append(nodes, n)
	}
	slices.Reverse(nodes)
	s.Nodes["failed"] = Record{UID: "f", Phase: Failed, Target: "v1", Reason: "never Ready"}
	s = nextOf(ctl, s, nodes...)
	want := fmt.Sprintf("; installed before, and without it now: %s, %s, ", nodeName(0), nodeName(1))
	if summary := ctl.summary(&s, &World{Nodes: nodes}); !strings.Contains(summary, want) || !strings.Contains(summary, nodeName(19)+" and 10 more. Begin anew") {
		t.Error(summary)
	}
	s = nextOf(ctl, undoAgain(s, "v1"), nodes...)
	undoing := 0
	for _, r := range s.Nodes {
		if r.Phase == Undoing {
			undoing++
		}
	}
	if undoing == 0 {
		t.Errorf("none is undone: %+v", s.Nodes)
	}
}
