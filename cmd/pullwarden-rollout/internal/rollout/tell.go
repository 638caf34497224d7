// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tell logs what has changed.
func (c *Controller) tell(was, now *State, summary string) {
	for _, name := range slices.Sorted(maps.Keys(now.Nodes)) {
		before, r := was.Nodes[name], now.Nodes[name]
		if before == r {
			continue
		}
		line := fmt.Sprintf("node %s: %s", name, r.Phase)
		switch {
		case r.Reason != "":
			line += ": " + r.Reason
		case r.Phase == Reverted:
			line += ": it was installed, and its kubelet reports a runtime without pullwarden"
		}
		c.log(line)
	}
	if summary != c.headline {
		c.headline = summary
		c.log(summary)
	}
}

// summary says in a sentence or two how far the rollout is, and after a failure which
// nodes stay as they are.
func (c *Controller) summary(s *State, w *World) string {
	by := map[Phase][]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		r := s.Nodes[name]
		if r.Phase.underWay() || r.Phase == Stuck && s.UndoOf != "" || r.Target == c.Target {
			by[r.Phase] = append(by[r.Phase], name)
		}
	}
	busy := len(by[Installing]) + len(by[Settling]) + len(by[Restoring]) + len(by[Undoing])
	nodes := w.included()
	done, reverted, without := 0, []string(nil), ""
	for _, n := range nodes {
		switch r := s.Nodes[n.Name]; {
		case r.Phase == Installed && r.Target == c.Target:
			done++
		case r.Phase == Reverted && r.Target == c.Target:
			reverted = append(reverted, n.Name)
		}
	}
	if slices.Sort(reverted); len(reverted) > 0 {
		without = "; installed before, and without it now: " + orNone(reverted)
	}
	failed := slices.Concat(by[Failed], by[Stuck], by[Restoring], by[Undoing])
	switch {
	case s.UndoOf != "":
		return fmt.Sprintf("undoing: %d of %d nodes done, %d under way, %d stuck", len(by[Undone]), len(s.Nodes), busy, len(by[Stuck]))
	case len(failed) > 0:
		return fmt.Sprintf("stopped: failed on %s; no other node is started. Installed before, and left so: %s%s. Begin anew with another image, or another value of retry",
			orNone(failed), orNone(slices.Concat(by[Installed], by[Settling], by[Installing])), without)
	}
	_, number := c.stage(done, len(nodes))
	text := fmt.Sprintf("stage %d of %d: %d of %d nodes installed, %d under way%s", number, len(c.Stages), done, len(nodes), busy, without)
	if c.full {
		text += fmt.Sprintf("; there is no room for more than the %d nodes that the state has: leave the others out by installer.nodeSelector, "+
			"and install the chart in another namespace for those", len(s.Nodes))
	}
	return text
}

// orNone lists names, the first of very many.
func orNone(names []string) string {
	const most = 20
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
