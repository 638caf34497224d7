// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// fate is how a node takes an installation.
type fate string

const (
	well       fate = "well"
	refused    fate = "refused"     // the install fails, and has put back what was there
	brokenOff  fate = "broken off"  // the install fails, and leaves the node without a runtime
	killed     fate = "killed"      // the pod is killed in the middle
	never      fate = "never Ready" // after the installation, until it is undone
	flaps      fate = "flaps"       // Ready again and again, never for long
	stock      fate = "stock"       // Ready, with a containerd that is not ours
	hangs      fate = "hangs"       // its pod never ends
	unpulled   fate = "unpulled"    // no pod ever runs: there is no such image
	notUndone  fate = "not undone"  // never Ready, and the uninstall fails
	podRemoved fate = "pod removed" // somebody removes the first pod in the middle
)

const (
	podTakes = 7 * time.Second
	flapping = 30 * time.Second
)

// cluster is a small one in memory, with the calls that the API server would see. Its nodes
// do what pods tell them after podTakes.
type cluster struct {
	t  testing.TB
	mu sync.Mutex

	nodes   map[string]*member
	pods    map[string]*workload
	state   State
	version int
	summary string
	down    bool // the API server does not answer

	installs []string        // nodes whose install pods were made, in their order
	made     map[string]bool // the names of all pods that there ever were
	saved    func()          // looks at each new state
	room     int             // for so many nodes in the state; 0 = for any
	lag      time.Duration   // each call takes up to that long
}

type member struct {
	fate     fate
	ready    bool
	excluded bool // by the selector
	changed  time.Time
	runtime  string
	original string
	attempts int
}

type workload struct {
	Pod
	verb Verb
	done time.Time
}

const stockRuntime, ourRuntime = "containerd://2.4.2", "containerd://2.4.2+pullwarden.v1"

func newCluster(t testing.TB, size int, fates map[int]fate) *cluster {
	c := &cluster{t: t, nodes: map[string]*member{}, pods: map[string]*workload{}, made: map[string]bool{}, saved: func() {}}
	for i := range size {
		f, odd := fates[i]
		if !odd {
			f = well
		}
		c.join(i, f)
	}
	return c
}

func nodeName(i int) string { return fmt.Sprintf("node-%03d", i) }

func (c *cluster) join(i int, f fate) {
	c.nodes[nodeName(i)] = &member{fate: f, ready: true, changed: time.Now(), runtime: stockRuntime, original: stockRuntime}
}

// wait is how long a call is under way. One whose context ends meanwhile is not made.
func (c *cluster) wait(ctx context.Context) error {
	if c.lag == 0 {
		return nil
	}
	select {
	case <-time.After(rand.N(c.lag)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errDown = errors.New("the API server does not answer")

// advance lets pods and nodes do what is due.
func (c *cluster) advance() error {
	if c.down {
		return errDown
	}
	now := time.Now()
	for _, p := range c.pods {
		n := c.nodes[p.Node]
		if !p.Ended && !now.Before(p.done) && n.fate != unpulled && (n.fate != hangs || p.verb == Uninstall) {
			c.end(p, n)
		}
	}
	for _, n := range c.nodes {
		if n.fate == flaps && n.runtime == ourRuntime && now.Sub(n.changed) >= flapping {
			n.ready, n.changed = !n.ready, now
		}
	}
	return nil
}

func (c *cluster) end(p *workload, n *member) {
	p.Ended, p.Succeeded = true, true
	change := func(runtime string, ready bool) { n.runtime, n.ready, n.changed = runtime, ready, time.Now() }
	switch {
	case p.verb == Uninstall && n.fate == notUndone:
		p.Succeeded, p.Exited, p.Message = false, 1, "no way back"
	case p.verb == Uninstall:
		change(stockRuntime, true)
	case n.fate == refused:
		p.Succeeded, p.Exited, p.Message = false, 1, "another minor"
	case n.fate == brokenOff:
		p.Succeeded, p.Exited, p.Message = false, 1, "cannot go back"
		change(stockRuntime, false)
	case n.fate == killed:
		p.Succeeded, p.Message = false, "OOMKilled"
		change(ourRuntime, false)
	case n.fate == never || n.fate == notUndone || n.fate == flaps:
		change(ourRuntime, false)
	case n.fate == podRemoved && n.attempts == 1:
		delete(c.pods, p.Name)
	case n.fate != stock:
		n.runtime = ourRuntime
	}
}

func (c *cluster) Load(ctx context.Context) (State, string, error) {
	if err := c.wait(ctx); err != nil {
		return State{}, "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return State{}, "", errDown
	}
	return State{UndoOf: c.state.UndoOf, Nodes: maps.Clone(c.state.Nodes)}, strconv.Itoa(c.version), nil
}

func (c *cluster) Save(ctx context.Context, version string, s State, summary string) error {
	if err := c.wait(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return errDown
	}
	if version != strconv.Itoa(c.version) {
		return ErrChanged
	}
	if !c.Fits(s) {
		return errors.New("too long")
	}
	c.version++
	c.state, c.summary = State{UndoOf: s.UndoOf, Nodes: maps.Clone(s.Nodes)}, summary
	c.saved()
	return nil
}

func (c *cluster) Fits(s State) bool { return c.room == 0 || len(s.Nodes) <= c.room }

func (c *cluster) Look(ctx context.Context) (World, error) {
	if err := c.wait(ctx); err != nil {
		return World{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.advance(); err != nil {
		return World{}, err
	}
	var w World
	for name, n := range c.nodes {
		w.Nodes = append(w.Nodes, Node{Name: name, UID: "of-" + name, Excluded: n.excluded, Ready: n.ready, Changed: n.changed, Runtime: n.runtime})
	}
	for _, p := range c.pods {
		w.Pods = append(w.Pods, p.Pod)
	}
	return w, nil
}

func (c *cluster) Start(ctx context.Context, name, node string, v Verb) error {
	if err := c.wait(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return errDown
	}
	if c.pods[name] != nil {
		return nil
	}
	for _, p := range c.pods {
		if p.Node == node && !p.Ended {
			c.t.Errorf("%s gets %s while %s runs", node, v, p.verb)
		}
	}
	if n := c.nodes[node]; c.made[name] && n.fate != podRemoved {
		c.t.Errorf("%s gets %s a second time", node, v)
	}
	c.made[name] = true
	if v == Install {
		c.installs = append(c.installs, node)
	}
	c.nodes[node].attempts++
	c.pods[name] = &workload{Pod{Name: name, Node: node}, v, time.Now().Add(podTakes)}
	if c.nodes[node].fate == unpulled {
		c.pods[name].Message = "ImagePullBackOff"
	}
	return nil
}

func (c *cluster) Stop(ctx context.Context, name string) error {
	if err := c.wait(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return errDown
	}
	delete(c.pods, name)
	return nil
}

// phases returns the names of nodes in a phase.
func (c *cluster) phases(p Phase) (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.state.Nodes)) {
		if c.state.Nodes[name].Phase == p {
			all = append(all, name)
		}
	}
	return all
}

// ours counts the nodes with pullwarden.
func (c *cluster) ours() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.nodes {
		if m.runtime == ourRuntime {
			n++
		}
	}
	return n
}
