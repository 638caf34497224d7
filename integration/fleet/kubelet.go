// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"container/heap"
	"context"
	"time"
)

const (
	// The kubelet's back-off of images (pkg/kubelet/images, MaxContainerBackOff), and the
	// time after which a pod worker looks again (backOffPeriod with its jitter).
	firstBackOff = 10 * time.Second
	maxBackOff   = 5 * time.Minute
	lookAgain    = 15 * time.Second

	// delayedAfter is how long a start may wait for its image before it counts as
	// delayed: more than a check and a download take.
	delayedAfter = 10 * time.Second
)

// start is one container that is to start on a node.
type start struct {
	repository string
	at         time.Time // of the next try
	due        time.Time // of the first one
	tries      int
	slot       bool   // another follows it: a pod that comes and goes
	done       func() // when it has its image; nil = nobody waits
}

// starts are those of a node, by the time of their next try.
type starts []*start

// Len implements sort.Interface.
func (s starts) Len() int { return len(s) }

// Less implements sort.Interface.
func (s starts) Less(i, j int) bool { return s[i].at.Before(s[j].at) }

// Swap implements sort.Interface.
func (s starts) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push implements heap.Interface.
func (s *starts) Push(x any) { *s = append(*s, x.(*start)) }

// Pop implements heap.Interface.
func (s *starts) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last], *s = nil, (*s)[:last]
	return x
}

// plan has a container start at that time.
func (n *node) plan(s *start, at time.Time) {
	s.at, s.due = at, at
	heap.Push(&n.starts, s)
}

// run starts containers until ctx ends. Images are pulled one at a time, as by a kubelet
// with serializeImagePulls, its default.
func (n *node) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		var due <-chan time.Time
		if len(n.starts) > 0 {
			timer.Reset(time.Until(n.starts[0].at))
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case s := <-n.incoming:
			if s == nil {
				n.reboot()
			} else {
				n.plan(s, time.Now())
			}
		case <-due:
			n.try(ctx, heap.Pop(&n.starts).(*start))
		}
	}
}

// try starts a container, or plans its next try.
func (n *node) try(ctx context.Context, s *start) {
	counts := n.fleet.pods
	stale, err := n.ensure(ctx, s.repository)
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	if err != nil {
		counts.Add(Failures)
		wait := min(firstBackOff<<min(s.tries, 10), maxBackOff)
		s.tries++
		s.at = now.Add(wait + time.Duration(n.random.Int64N(int64(lookAgain))))
		heap.Push(&n.starts, s)
		return
	}
	counts.Add(Started)
	if now.Sub(s.due) > delayedAfter {
		counts.Add(Delayed)
	}
	if stale {
		counts.Add(Stale)
	}
	if n.outdated(ctx, s.repository) {
		counts.Add(Outdated)
	}
	if s.done != nil {
		s.done()
	}
	if mean := n.fleet.scenario.Lifetime; s.slot && mean > 0 {
		n.plan(&start{repository: s.repository, slot: true}, now.Add(n.exponential(mean)))
	}
}

// outdated reports whether the tag has another image than the node.
func (n *node) outdated(ctx context.Context, repository string) bool {
	record, err := n.records.Get(ctx, repository+tagSuffix)
	return err == nil && record.Target.Digest != n.fleet.origin.current(repository).manifest.desc.Digest
}

// exponential is a random time of that mean: starts that know nothing of one another.
func (n *node) exponential(mean time.Duration) time.Duration {
	return time.Duration(n.random.ExpFloat64() * float64(mean))
}
