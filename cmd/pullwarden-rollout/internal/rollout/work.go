// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"time"
)

// work is what a state asks for.
type work struct {
	stop  []string // pods
	start []order
	later bool // pods are left that a later step removes
}

// order is a pod to be made.
type order struct {
	pod, node string
	verb      Verb
}

func (w *work) none() bool { return len(w.stop)+len(w.start) == 0 }

// workOf returns the pods that a state asks for and that are not there, and those that are
// there and not asked for. A node has one pod at a time: the next waits until the one
// before is gone. One that has ended stays for as long as a step may last that has not seen it, and is
// about to make it: what has a name that is there is not made again.
func workOf(s *State, w *World, now time.Time) (todo work) {
	there, occupied := map[string]bool{}, map[string]bool{}
	for i := range w.Pods {
		p := &w.Pods[i]
		r := s.Nodes[p.Node]
		wanted := r.Pod == p.Name && (r.Phase == Installing || r.Phase == Undoing)
		kept := r.Pod == p.Name && p.Ended && !p.Succeeded // for those who look for the reason
		there[p.Name] = there[p.Name] || wanted
		occupied[p.Node] = occupied[p.Node] || !p.Ended
		switch {
		case wanted || kept || p.Leaving:
		case p.Ended && now.Sub(r.Since) < stepTimeout:
			todo.later = true
		default:
			todo.stop = append(todo.stop, p.Name)
		}
	}
	for name, r := range s.Nodes {
		verb := map[Phase]Verb{Installing: Install, Undoing: Uninstall}[r.Phase]
		if verb != "" && !there[r.Pod] && !occupied[name] {
			todo.start = append(todo.start, order{r.Pod, name, verb})
		}
	}
	return todo
}

// do makes and removes the pods. The error has those of all that failed.
func (w *work) do(ctx context.Context, r Runner) error {
	var errs []error
	for _, name := range w.stop {
		errs = append(errs, r.Stop(ctx, name))
	}
	for _, o := range w.start {
		errs = append(errs, r.Start(ctx, o.pod, o.node, o.verb))
	}
	return errors.Join(errs...)
}
