// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// step is one look at the cluster, and what follows from it.
type step struct {
	*Options
	now   time.Time
	seen  *sight
	nodes map[string]Node
	pods  map[string]Pod
	state State
	turns []Node // those included, in the order in which they have theirs: control planes last

	stopped bool // a node has failed
	further int  // how many nodes may begin of which nothing is known yet
}

// next returns the state that follows. It has no effects: what is to be done follows from
// the state alone. No more than so many further nodes begin.
func next(o *Options, was State, w World, seen *sight, now time.Time, further int) State {
	s := step{
		Options: o, now: now, seen: seen, further: further, nodes: map[string]Node{}, pods: map[string]Pod{}, turns: w.included(),
		state: State{UndoOf: was.UndoOf, Nodes: maps.Clone(was.Nodes)},
	}
	if s.state.Nodes == nil {
		s.state.Nodes = map[string]Record{}
	}
	for _, n := range w.Nodes {
		s.nodes[n.Name] = n
	}
	for i := range w.Pods {
		s.pods[w.Pods[i].Name] = w.Pods[i]
	}
	slices.SortFunc(s.turns, inTurn)
	if s.state.UndoOf != o.Target {
		s.state.UndoOf = ""
	}
	for _, r := range was.Nodes {
		s.stopped = s.stopped || r.Target == o.Target && r.Reason != "" && s.state.UndoOf == ""
	}
	for name, r := range was.Nodes {
		n, there := s.nodes[name]
		if there && isOurs(n.Runtime) {
			r.UID = n.UID // the same machine may have registered anew
		}
		if there && n.UID == r.UID {
			s.state.Nodes[name] = s.advance(name, r)
		} else if kept, ok := s.gone(name, r); ok {
			s.state.Nodes[name] = kept
		} else {
			delete(s.state.Nodes, name)
		}
	}
	if s.state.UndoOf != "" {
		s.undo()
	} else {
		s.begin()
	}
	return s.state
}

// inTurn compares nodes by their turn: those of the control plane come last.
func inTurn(a, b Node) int {
	switch {
	case a.ControlPlane == b.ControlPlane:
		return cmp.Compare(a.Name, b.Name)
	case b.ControlPlane:
		return -1
	}
	return 1
}

// gone returns what is kept of a node that is not there, or whose name another machine has: nothing,
// unless the rollout is stopped. Its failure then stops it still, and no node is added to those kept.
func (s *step) gone(name string, r Record) (_ Record, ok bool) {
	if r.Reason != "" && r.Phase.underWay() {
		r = s.enter(name, r, Failed, join(r.Reason, "the node is gone"))
	}
	return r, s.stopped && !r.Phase.underWay()
}

// advance returns the record of a node after what was seen of it.
func (s *step) advance(name string, r Record) Record {
	pod, there := s.pods[r.Pod]
	there = there && r.Pod != ""
	overdue := func(limit time.Duration) bool { return s.now.Sub(later(r.Since, s.seen.since)) > limit }
	settled := min(s.seen.readyFor(name, s.now), s.now.Sub(r.Since)) >= s.SettleTime
	switch {
	case r.Phase == Installing && there && pod.Succeeded:
		return s.enter(name, r, Settling, "")
	case r.Phase == Installing && there && pod.Ended && pod.Exited > 0:
		return s.enter(name, r, Restoring, "pullwarden install failed: "+pod.Message)
	case r.Phase == Installing && there && pod.Ended:
		return s.enter(name, r, Undoing, "the installation was broken off: "+pod.Message)
	case r.Phase == Installing && overdue(s.InstallTimeout):
		return s.enter(name, r, Undoing, join(fmt.Sprintf("the installation has not ended within %s", s.InstallTimeout), pod.Message))
	case r.Phase == Restoring && settled:
		return s.enter(name, r, Failed, r.Reason)
	case r.Phase == Restoring && overdue(s.ReadyTimeout):
		return s.enter(name, r, Undoing, join(r.Reason, "the node has not been Ready since"))
	case (r.Phase == Settling || r.Phase == Reverted) && settled && isOurs(s.nodes[name].Runtime):
		return s.enter(name, r, Installed, "")
	case r.Phase == Installed && isOther(s.nodes[name].Runtime):
		return s.enter(name, r, Reverted, "")
	case r.Phase == Settling && overdue(s.ReadyTimeout):
		return s.enter(name, r, Undoing, fmt.Sprintf("the node has not been Ready for %s within %s, with %s", s.SettleTime, s.ReadyTimeout, s.nodes[name].Runtime))
	case r.Phase == Undoing && there && pod.Succeeded && r.Reason == "":
		return s.enter(name, r, Undone, "")
	case r.Phase == Undoing && there && pod.Succeeded:
		return s.enter(name, r, Failed, r.Reason)
	case r.Phase == Undoing && there && pod.Ended:
		return s.enter(name, r, Stuck, join(r.Reason, "pullwarden uninstall failed: "+pod.Message))
	case r.Phase == Undoing && overdue(s.InstallTimeout):
		return s.enter(name, r, Stuck, join(r.Reason, join(fmt.Sprintf("pullwarden uninstall has not ended within %s", s.InstallTimeout), pod.Message)))
	}
	return r
}

// enter returns a record in another phase. Installing and Undoing have a pod of their own.
func (s *step) enter(name string, r Record, p Phase, reason string) Record {
	r.Phase, r.Since, r.Reason = p, s.now, reason
	if p == Installing || p == Undoing {
		sum := sha256.Sum256([]byte(strings.Join([]string{name, r.UID, r.Target, string(p), s.now.Format(time.RFC3339Nano)}, "\x00")))
		r.Pod = "pullwarden-" + strings.ToLower(string(p)) + "-" + hex.EncodeToString(sum[:8])
	}
	return r
}

// begin starts nodes of the stage that is under way. After a failure it starts none. Reverted nodes keep their place in the
// stage: where something takes pullwarden off again, no node of the next one is touched.
func (s *step) begin() {
	done, reverted, busy := 0, 0, 0
	for name, r := range s.state.Nodes {
		switch {
		case r.Target == s.Target && (r.Phase == Failed || r.Phase == Stuck || r.Phase == Restoring || r.Phase == Undoing):
			return
		case r.Phase.underWay():
			busy++
		case r.Phase == Installed && r.Target == s.Target && !s.nodes[name].Excluded:
			done++
		case r.Phase == Reverted && r.Target == s.Target && !s.nodes[name].Excluded:
			reverted++
		}
	}
	size, _ := s.stage(done, len(s.turns))
	free := min(max(1, s.MaxUnavailable.of(len(s.turns))), size-done-reverted) - busy
	for _, n := range s.turns {
		r, known := s.state.Nodes[n.Name]
		if free <= 0 {
			return
		}
		if !n.Ready || !known && s.further == 0 || known && (r.Target == s.Target && r.Phase != Undone || r.Phase.underWay()) {
			continue
		}
		s.state.Nodes[n.Name] = s.enter(n.Name, Record{UID: n.UID, Target: s.Target}, Installing, "")
		free--
		if !known {
			s.further--
		}
	}
}

// undo starts to take pullwarden off further nodes, also those where it failed: they may
// have an older one. An installation that is under way ends first.
func (s *step) undo() {
	busy := 0
	for _, r := range s.state.Nodes {
		if r.Phase == Installing || r.Phase == Undoing {
			busy++
		}
	}
	free := max(1, s.MaxUnavailable.of(len(s.nodes))) - busy
	for _, name := range slices.Sorted(maps.Keys(s.state.Nodes)) {
		r := s.state.Nodes[name]
		if free > 0 && (r.Phase == Settling || r.Phase == Restoring || r.Phase == Installed || r.Phase == Reverted || r.Phase == Failed) {
			s.state.Nodes[name] = s.enter(name, r, Undoing, "")
			free--
		}
	}
}

// isOurs reports whether the kubelet talks to a containerd with pullwarden.
func isOurs(runtime string) bool { return strings.Contains(runtime, "+pullwarden.") }

// isOther reports whether the kubelet talks to a runtime without pullwarden. While its runtime does not answer, it reports
// the version "Unknown".
func isOther(runtime string) bool {
	return runtime != "" && !strings.HasSuffix(runtime, "://Unknown") && !isOurs(runtime)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// join returns two reasons as one; "" is none.
func join(a, b string) string {
	return strings.TrimSuffix(strings.TrimPrefix(a+"; "+b, "; "), "; ")
}
