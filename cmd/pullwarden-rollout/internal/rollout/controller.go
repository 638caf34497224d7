// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"
)

// ErrChanged is the error of Ledger.Save where the state is not the one that was loaded.
var ErrChanged = errors.New("another controller has changed the state of the rollout")

// Ledger keeps the state.
type Ledger interface {
	// Load returns the state, and its version.
	Load(ctx context.Context) (State, string, error)
	// Save replaces the state of that version, or fails with ErrChanged. The summary is for
	// people.
	Save(ctx context.Context, version string, s State, summary string) error
	// Fits reports whether Save has room for a state, also when its nodes are in other phases.
	Fits(s State) bool
}

// Watcher looks at the cluster.
type Watcher interface {
	Look(ctx context.Context) (World, error)
}

// Runner has pods run on nodes.
type Runner interface {
	// Start makes a pod of that name on a node. One of that name that is there is no error.
	Start(ctx context.Context, name, node string, v Verb) error
	// Stop removes a pod. One that is not there is no error.
	Stop(ctx context.Context, name string) error
}

// stepTimeout bounds a step, so that nothing is done that a state of long ago asked for.
const stepTimeout = 20 * time.Second

// idle is how many times as long as Interval the next look waits while nothing is under way: the controller waits for
// nodes that join for as long as it is installed, and each look lists all that there are.
const idle = 12

// Controller takes one step after the other.
type Controller struct {
	Options
	Ledger  Ledger
	Watcher Watcher
	Runner  Runner
	Log     io.Writer

	seen     sight
	problem  string // of the last step
	headline string // the last summary that was saved
	full     bool   // nodes wait that the state has no room for
}

// Run goes on until the context ends: it also serves nodes that join later.
func (c *Controller) Run(ctx context.Context) {
	for sleep(ctx, c.pause(c.step(ctx, false))) { // an error is logged, and tried again
	}
}

// pause returns how long the next step waits after one with these results.
func (c *Controller) pause(s State, todo work, err error) time.Duration {
	busy := err != nil || todo.later || !todo.none()
	for _, r := range s.Nodes {
		busy = busy || r.Phase.underWay()
	}
	if busy {
		return c.Interval
	}
	return idle * c.Interval
}

// Undo takes pullwarden off all nodes that have it by a rollout, and ends any rollout that
// is under way. It returns when all are done. The error names the nodes that need somebody.
func (c *Controller) Undo(ctx context.Context) error {
	var left []string
	again := true // what is stuck since an earlier call is tried once more
	if !c.each(ctx, func() bool {
		s, todo, err := c.step(ctx, again)
		if err != nil {
			return false
		}
		again, left = false, nil
		if todo.later {
			return false
		}
		for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
			switch r := s.Nodes[name]; r.Phase {
			case Undone:
			case Stuck:
				left = append(left, name+": "+r.Reason)
			default:
				return false
			}
		}
		return s.UndoOf != ""
	}) {
		return context.Cause(ctx)
	}
	if len(left) > 0 {
		return fmt.Errorf("these nodes could not be undone, look at them: %q", left)
	}
	return nil
}

// each calls a function until it returns true, or the context ends: false.
func (c *Controller) each(ctx context.Context, done func() bool) bool {
	for !done() {
		if !sleep(ctx, c.Interval) {
			return false
		}
	}
	return true
}

// sleep waits that long, or until the context ends: false.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// step looks at the cluster, writes down what follows, and does it. Undo begins with again.
func (c *Controller) step(ctx context.Context, again bool) (State, work, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	s, todo, err := c.tryStep(ctx, again)
	switch {
	case errors.Is(err, ErrChanged): // the next step begins with the new state
	case err != nil:
		c.seen = sight{}
		if c.problem != err.Error() {
			c.log("nothing is done while this fails: " + err.Error())
		}
		c.problem = err.Error()
	default:
		c.problem = ""
	}
	return s, todo, err
}

func (c *Controller) tryStep(ctx context.Context, again bool) (State, work, error) {
	was, version, err := c.Ledger.Load(ctx)
	if err != nil {
		return State{}, work{}, err
	}
	world, err := c.Watcher.Look(ctx)
	if err != nil {
		return State{}, work{}, err
	}
	now := time.Now()
	c.seen.look(world.Nodes, now)
	before := was
	if again {
		before = undoAgain(was, c.Target)
	}
	now = now.UTC().Truncate(time.Second)
	s := c.nextThatFits(before, world, now)
	todo := workOf(&s, &world, now)
	summary := c.summary(&s, &world)
	// A state that stays the same is saved, too, before a pod is made or removed: it may be
	// one of long ago.
	if s.UndoOf != was.UndoOf || !maps.Equal(s.Nodes, was.Nodes) || !todo.none() || summary != c.headline {
		if err := c.Ledger.Save(ctx, version, s, summary); err != nil {
			return State{}, work{}, err
		}
		c.tell(&was, &s, summary)
	}
	return s, todo, todo.do(ctx, c.Runner)
}

// nextThatFits returns the state that follows. Where it has no room for further nodes, these wait, and the others go
// on: a state that cannot be saved would leave alone those that are under way.
func (c *Controller) nextThatFits(was State, w World, now time.Time) (s State) {
	for _, further := range []int{math.MaxInt, 1, 0} {
		c.full = further == 0
		s = next(&c.Options, was, w, &c.seen, now, further)
		if c.full || !s.hasFurther(was) || c.Ledger.Fits(s) {
			break
		}
	}
	return s
}

// undoAgain returns a state whose target is to be undone, also where that failed before.
func undoAgain(s State, target string) State {
	s.UndoOf, s.Nodes = target, maps.Clone(s.Nodes)
	for name, r := range s.Nodes {
		if r.Phase == Stuck {
			r.Phase = Failed
			s.Nodes[name] = r
		}
	}
	return s
}

func (c *Controller) log(line string) { _, _ = io.WriteString(c.Log, line+"\n") }
