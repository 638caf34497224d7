// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

// fleet is the nodes and the registries of one arm of a scenario.
type fleet struct {
	scenario *Scenario
	arm      Arm
	rules    *policy.Rules
	catalog  catalog
	origin   *Registry
	mirror   *Registry // nil = none
	nodes    []*node
	pods     *Series

	mu       sync.Mutex
	versions map[string]int // by repository
}

// Run lets one arm of a scenario happen, in a bubble of its own.
func Run(t *testing.T, s *Scenario, arm Arm) (r Result) {
	t.Helper()
	inBubble(t, s, arm, func(ctx context.Context, f *fleet) {
		f.run(ctx)
		r = f.result()
	})
	return r
}

// inBubble makes the fleet of an arm in a bubble of its own, for as long as a function takes.
func inBubble(t *testing.T, s *Scenario, arm Arm, play func(context.Context, *fleet)) {
	t.Helper()
	rules, err := policy.ParseRules("fleet.toml", []byte(arm.Rules))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(s, arm, policy.NewRules(policy.Overrides{}, rules))
		defer f.close()
		play(t.Context(), f)
	})
}

// newFleet makes the registries and nodes of an arm. The caller closes it.
func newFleet(s *Scenario, arm Arm, rules *policy.Rules) *fleet {
	f := &fleet{scenario: s, arm: arm, rules: rules}
	start := time.Now().Add(f.warmup())
	f.origin = NewRegistry(originHost, s.Registry, start, s.Faults...)
	if s.Mirror != nil {
		f.mirror = NewRegistry(mirrorHost, *s.Mirror, start, s.MirrorFaults...)
	}
	f.pods, f.versions, f.catalog.images = NewSeries(start), map[string]int{}, map[digest.Digest]*image{}
	for i := range s.Images {
		f.push(i)
	}
	for id := range s.Nodes {
		f.nodes = append(f.nodes, newNode(f, id))
	}
	return f
}

// warmup is how long nodes run before the story. Stock containerd keeps nothing between pulls
// that it would warm.
func (f *fleet) warmup() time.Duration {
	if f.arm.Stock {
		return 0
	}
	return f.scenario.Warmup
}

// close ends what nodes do in the background.
func (f *fleet) close() {
	for _, n := range f.nodes {
		n.close()
	}
}

// run lets the scenario happen.
func (f *fleet) run(ctx context.Context) {
	s := f.scenario
	ctx, cancel := context.WithTimeout(ctx, f.warmup()+s.Length)
	defer cancel()
	var wg sync.WaitGroup
	for _, n := range f.nodes {
		n.populate()
		wg.Go(func() { n.run(ctx) })
	}
	if s.Events != nil {
		wg.Go(func() { s.Events(ctx, f) })
	}
	wg.Wait()
}

// populate puts the images of the node's pods there, with their last checks, and plans the
// starts of its pods.
func (n *node) populate() {
	s, now := n.fleet.scenario, time.Now()
	for slot := range s.Pods {
		repository := n.fleet.repository((n.id + slot) % s.Images)
		ago := time.Duration(n.random.Int64N(int64(cmp.Or(s.Together, time.Hour))))
		n.preload(repository, n.fleet.origin.current(repository), now.Add(-ago))
		if s.Lifetime > 0 {
			n.plan(&start{repository: repository, slot: true}, now.Add(n.exponential(s.Lifetime)))
		}
	}
}

// repository is the name of the fleet's image of that number.
func (f *fleet) repository(number int) string {
	return fmt.Sprintf("%s/team/app-%02d", originHost, number)
}

// push moves the tag of an image.
func (f *fleet) push(number int) {
	repository := f.repository(number)
	f.mu.Lock()
	f.versions[repository]++
	i := newImage(repository, f.versions[repository])
	f.mu.Unlock()
	f.catalog.add(i)
	f.origin.Push(repository, i)
	if f.mirror != nil {
		f.mirror.Push(repository, i)
	}
}

// registries are those that a node asks, in their order.
func (f *fleet) registries() []*Registry {
	if f.mirror == nil {
		return []*Registry{f.origin}
	}
	return []*Registry{f.mirror, f.origin}
}
