// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	nodes "github.com/pullwarden/pullwarden/integration/node"
)

const (
	pullLimit  = time.Minute
	leaveLimit = 5 * time.Second // for the decision about a caller who left
)

// history is one history, as far as it has come.
type history struct {
	node *node
	reg  *registry
	done *tally
	// worlds are the states that the node may have; lost are those that it may
	// have after a kill, because the results of the last step were not written.
	worlds, lost []World
	settled      bool
	patience     time.Duration // with what is written behind
	steps        []string
	began        nodes.Mark // in the daemon's log
}

// violation is an error of the product: what happened is not in the contract.
// Its text is the same for each history that violates the same promise, so that
// histories can be shrunk; details are not.
type violation struct{ text, details string }

func (v *violation) Error() string { return v.text }

func violated(text, format string, args ...any) error {
	return &violation{text, fmt.Sprintf(format, args...)}
}

// begin begins a history on an empty node, with a registry of its own.
func begin(ctx context.Context, n *node, done *tally, basic bool, rule Rule) (h *history, err error) {
	if !n.Alive() {
		if err := n.Start(ctx); err != nil {
			return nil, err
		}
	}
	if err := n.clear(ctx); err != nil {
		return nil, fmt.Errorf("clear the node: %w", err)
	}
	done.histories++
	h = &history{node: n, done: done, worlds: []World{{}}, settled: true}
	h.began = n.Mark()
	if h.reg, err = newRegistry(done.histories, basic); err != nil { //nolint:contextcheck // it lives until it is closed
		return nil, err
	}
	if basic {
		h.steps = append(h.steps, "the registry has Basic authentication")
	}
	if err = n.serve(h.reg); err == nil {
		err = h.change(ctx, Op{Kind: DoRule, Rule: rule})
	}
	h.steps = append(h.steps, "the rule is "+rule.String())
	for name := range names {
		if err == nil {
			err = h.reg.push(ctx, name, 1+name%2)
		}
	}
	if err != nil {
		h.reg.Close()
	}
	return h, err
}

// step does one step and holds the model against it.
func (h *history) step(ctx context.Context, o Op) error {
	h.steps = append(h.steps, o.String())
	h.done.steps[o.Kind]++
	if err := h.settle(ctx); err != nil {
		return err
	}
	switch o.Kind {
	case DoPull, DoTogether:
		return h.pulls(ctx, o)
	case DoMeanwhile:
		return h.pullMeanwhile(ctx, o)
	case DoLeave:
		return h.leave(ctx, o)
	case DoKillIn:
		return h.killIn(ctx, o)
	case DoKill, DoRestart:
		return h.pullAndEnd(ctx, o)
	case DoRemove:
		return h.remove(ctx, o.Name)
	case DoTag, DoImport:
		return h.retag(ctx, o)
	}
	return h.change(ctx, o)
}

// end settles the history.
func (h *history) end(ctx context.Context) error {
	if err := h.settle(ctx); err != nil {
		return err
	}
	return h.healthy(ctx)
}

// change changes the registry, or the rule.
func (h *history) change(ctx context.Context, o Op) (err error) {
	switch o.Kind {
	case DoPush:
		err = h.reg.push(ctx, o.Name, o.Content)
	case DoDelete:
		err = h.reg.delete(ctx, o.Name)
	case DoDeny, DoAllow:
		h.reg.permit(o.Name, o.Caller, o.Kind == DoAllow)
	case DoTrouble, DoRestore:
		err = h.reg.trouble(o.Trouble)
	case DoRule:
		h.reg.set(func(m *Registry) { m.Rule = o.Rule })
		err = h.node.rule(o.Rule, h.reg.mirror.Host())
	case DoMirror:
		h.reg.set(func(m *Registry) { m.Mirror = o.Mirror })
		err = h.node.serve(h.reg)
	}
	return err
}

// pullAndEnd does a pull and ends the daemon at once: what the pull found out is
// not written yet. A kill may lose it, and a restart must not.
func (h *history) pullAndEnd(ctx context.Context, o Op) error {
	begun := h.worlds
	if err := h.pulls(ctx, o); err != nil {
		return err
	}
	if o.Kind == DoRestart {
		return h.restart(ctx, h.node.Stop)
	}
	all := append(h.worlds, h.lost...)
	for _, w := range h.worlds {
		for _, before := range begun {
			all = append(all, w.unmarked(before))
		}
	}
	h.worlds = mixed(all)
	return h.restart(ctx, h.node.kill)
}

// restart ends the daemon, and starts it again.
func (h *history) restart(ctx context.Context, end func() error) error {
	if err := end(); err != nil {
		return violated("the daemon does not end", "%v", err)
	}
	if err := h.node.Start(ctx); err != nil {
		return violated("the daemon does not start again", "%v", err)
	}
	h.lost, h.settled = nil, false
	for i := range h.worlds {
		h.worlds[i].Blamed = Blame{}
	}
	if err := h.allowed(ctx); err != nil {
		return err
	}
	return h.healthy(ctx)
}

// settle waits until what is written behind is written. Where more than one
// state is allowed, the first that shows may not be the last.
func (h *history) settle(ctx context.Context) error {
	if h.settled {
		return nil
	}
	states := map[World]bool{}
	for _, w := range h.worlds {
		w.Blamed = Blame{} // cannot be seen
		states[w] = true
	}
	if len(states) > 1 {
		if err := h.node.flush(ctx); err != nil {
			return err
		}
	}
	return h.allowed(ctx)
}

// allowed waits until the node is in a state that the model allows. What makes no difference yet may make one later, so
// all has to be written where that is another state.
func (h *history) allowed(ctx context.Context) error {
	var got World
	var err error
	written := false
	for deadline := time.Now().Add(h.patience); ; time.Sleep(5 * time.Millisecond) {
		got, err = h.node.observe(ctx, h.reg)
		if err != nil {
			return violated("a record on the node is wrong", "%v", err)
		}
		var fit []World
		same := false
		for _, w := range h.worlds {
			if got.Blamed = w.Blamed; w.seenAs(got) == got.seenAs(got) {
				fit, same = append(fit, got), same || w == got
			}
		}
		switch {
		case len(fit) > 0 && (same || written):
			h.worlds, h.lost, h.settled = fit, nil, true
			return nil
		case len(fit) > 0:
			if err := h.node.flush(ctx); err != nil {
				return err
			}
			written = true
		case time.Now().After(deadline):
			return violated("the state of the node is not allowed", "it is\n%v\nallowed is\n%v", got, h.worlds)
		}
	}
}

// healthy holds that every image can run, and that the daemon has not crashed.
func (h *history) healthy(ctx context.Context) error {
	if err := h.node.runnable(ctx, h.reg); err != nil {
		return violated("an image is lost", "%v", err)
	}
	log, err := h.node.Log(h.began)
	if err != nil {
		return err
	}
	for _, bad := range []string{"WARNING: DATA RACE", "panic:", "fatal error:"} {
		if _, after, found := strings.Cut(log, bad); found {
			lines := strings.SplitAfter(after, "\n")
			return violated("the daemon's log has: "+bad, "%s", strings.Join(lines[:min(60, len(lines))], ""))
		}
	}
	return nil
}

// become sets the states that the node may have from now on.
func (h *history) become(branches []Branch) {
	h.worlds, h.lost, h.settled = nil, nil, false
	for _, b := range branches {
		if !slices.Contains(h.worlds, b.After) {
			h.worlds = append(h.worlds, b.After)
		}
		if !slices.Contains(h.lost, b.Lost) {
			h.lost = append(h.lost, b.Lost)
		}
	}
}
