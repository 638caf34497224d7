// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Script drives a small fleet step by step, to be compared with real nodes: no pod starts
// by itself, and nodes begin without images.
type Script struct {
	ctx   context.Context
	fleet *fleet
}

// Step is what came of a step.
type Step struct {
	Counts   map[string]int // by the names of Columns
	Fallback int            // starts from a cached image after a failure
	Failed   int            // starts that got no image
	Shortest time.Duration  // of all starts
}

// Play runs a script in a bubble.
func Play(t *testing.T, s *Scenario, arm Arm, script func(*Script)) {
	t.Helper()
	inBubble(t, s, arm, func(ctx context.Context, f *fleet) { script(&Script{ctx, f}) })
}

// Push moves the tag of the image of that number.
func (s *Script) Push(number int) { s.fleet.push(number) }

// RTT sets the round trip between nodes and the registry.
func (s *Script) RTT(d time.Duration) { s.fleet.origin.RTT = d }

// Fault sets what is wrong with the registry, from now on.
func (s *Script) Fault(kind FaultKind) {
	s.fleet.origin.faults = []Fault{{Kind: kind, To: time.Since(s.fleet.origin.start) + 24*time.Hour}}
}

// Start starts a container of each of these images on each node, so many times, one after
// the other on a node, and all nodes at once.
func (s *Script) Start(times int, numbers ...int) Step {
	before := s.fleet.origin.counts.totals()
	step := Step{Counts: map[string]int{}, Shortest: time.Hour}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range s.fleet.nodes {
		wg.Go(func() {
			for range times {
				for _, number := range numbers {
					began := time.Now()
					fallback, err := n.ensure(s.ctx, s.fleet.repository(number))
					mu.Lock()
					step.note(fallback, err, time.Since(began))
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for i, n := range s.fleet.origin.counts.totals() {
		step.Counts[Columns[i]] = n - before[i]
	}
	return step
}

// note adds one start.
func (s *Step) note(fallback bool, err error, took time.Duration) {
	if fallback {
		s.Fallback++
	}
	if err != nil {
		s.Failed++
	}
	s.Shortest = min(s.Shortest, took)
}

// totals are the sums of all columns.
func (s *Series) totals() (sums [columns]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, counts := range s.seconds {
		for c, n := range counts {
			sums[c] += int(n)
		}
	}
	return sums
}
