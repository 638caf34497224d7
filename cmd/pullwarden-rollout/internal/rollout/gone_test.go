// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// nextOf returns the state after a look at these nodes.
func nextOf(ctl *Controller, was State, nodes ...Node) State {
	now := time.Now()
	seen := &sight{}
	seen.look(nodes, now)
	return next(&ctl.Options, was, World{Nodes: nodes}, seen, now, len(nodes))
}

// A node that has failed stops the rollout also when it is deleted, or replaced under its name. Another target begins
// anew, and to undo it all nothing is to be done on it.
func TestFailureOfANodeThatIsGone(t *testing.T) {
	t.Parallel()
	other := Node{Name: "b", UID: "b1", Ready: true, Runtime: stockRuntime}
	for name, nodes := range map[string][]Node{
		"deleted":  {other, {Name: "new", UID: "new1", Ready: true, Runtime: stockRuntime}},
		"replaced": {other, {Name: "a", UID: "a2", Ready: true, Runtime: stockRuntime}},
	} {
		for _, phase := range []Phase{Failed, Stuck, Undoing, Restoring} {
			ctl := newController(t, nil, nil)
			s := State{Nodes: map[string]Record{"a": {UID: "a1", Phase: phase, Target: "v1", Since: time.Now(), Reason: "never Ready"}}}
			for range 3 {
				s = nextOf(ctl, s, nodes...)
			}
			summary := ctl.summary(&s, &World{Nodes: nodes})
			if r := s.Nodes["a"]; len(s.Nodes) != 1 || r.Phase.underWay() || !strings.HasPrefix(r.Reason, "never Ready") || !strings.HasPrefix(summary, "stopped: failed on a;") {
				t.Errorf("%s, %s: %+v: %s", name, phase, s, summary)
			}
			if undone := nextOf(ctl, undoAgain(s, "v1"), nodes...); len(undone.Nodes) != 0 {
				t.Errorf("%s, %s, to be undone: %+v", name, phase, undone)
			}
			ctl.Target = "v2"
			if s = nextOf(ctl, s, nodes...); len(s.Nodes) != 1 || slices.Collect(maps.Values(s.Nodes))[0].Phase != Installing {
				t.Errorf("%s, %s, with another target: %+v", name, phase, s)
			}
		}
	}
}

// A node that is deleted before it has failed, and one that was undone, stop nothing.
func TestGoneWithoutFailure(t *testing.T) {
	t.Parallel()
	for _, phase := range []Phase{Installing, Settling, Installed, Undoing, Undone} {
		ctl := newController(t, nil, nil)
		was := State{Nodes: map[string]Record{"a": {UID: "a1", Phase: phase, Target: "v1", Since: time.Now()}}}
		s := nextOf(ctl, was, Node{Name: "b", UID: "b1", Ready: true, Runtime: stockRuntime})
		if len(s.Nodes) != 1 || s.Nodes["b"].Phase != Installing {
			t.Errorf("%s: %+v", phase, s)
		}
	}
}

// A node that registers anew with pullwarden on it is undone with the others, also where it was not there for a while
// in which the rollout was stopped.
func TestUndoAfterANodeHasRegisteredAnew(t *testing.T) {
	t.Parallel()
	failed := Node{Name: "a", UID: "a1", Ready: true, Runtime: stockRuntime}
	anew := Node{Name: "b", UID: "b2", Ready: true, Runtime: ourRuntime}
	for _, away := range []bool{false, true} {
		for _, phase := range []Phase{Installed, Failed} { // a failed upgrade goes back to the one before
			ctl := newController(t, nil, nil)
			s := State{Nodes: map[string]Record{
				"a": {UID: "a1", Phase: Failed, Target: "v1", Since: time.Now(), Reason: "it stopped the rollout"},
				"b": {UID: "b1", Phase: phase, Target: "v1", Since: time.Now()},
			}}
			if away {
				s = nextOf(ctl, s, failed)
			}
			s = nextOf(ctl, s, failed, anew)
			s = nextOf(ctl, undoAgain(s, "v1"), failed, anew)
			if r := s.Nodes["b"]; r.UID != "b2" || r.Phase != Undoing {
				t.Errorf("away: %v, %s: %+v", away, phase, s.Nodes)
			}
		}
	}
}
