// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/store"
)

// Nodes that have checked an image together check it again apart: none before half of
// max_age, none after it, and as many in each part between.
func TestJitterOfMaxAge(t *testing.T) {
	const nodes, maxAge = 500, 10 * time.Minute
	asked := map[time.Duration]int{} // by the age of the check
	for i := range nodes {
		for _, age := range []time.Duration{5 * time.Minute, 6 * time.Minute, 8 * time.Minute, 9 * time.Minute, maxAge, maxAge + 1} {
			n := &node{remote: first, record: cachedImage(first, now.Add(-age))}
			n.record.Access = map[store.Fingerprint]store.Proof{store.Anonymous: {At: now}}
			e := n.engine(rule(`policy = "IfDigestChanged"`, `max_age = "10m"`, `govern = "Starts"`))
			e.Node = uint64(i) + 1
			req := n.request(nil)
			reuse := e.Start(t.Context(), req, true).Reuse
			o, err := e.Ensure(t.Context(), req)
			if err != nil || (o.Kind == Fresh) != (n.checks == 0) || (o.Kind == Fresh) != reuse {
				t.Fatalf("node %d, %v: %s after %d checks, reused by a start: %v, %v", i, age, o.Kind, n.checks, reuse, err)
			}
			asked[age] += n.checks
		}
	}
	for age, want := range map[time.Duration]int{
		5 * time.Minute: 0, 6 * time.Minute: nodes / 5, 8 * time.Minute: nodes * 3 / 5, 9 * time.Minute: nodes * 4 / 5, maxAge + 1: nodes,
	} {
		if got := asked[age]; got < want-nodes/10 || got > want+nodes/10 {
			t.Errorf("at an age of %v %d of %d nodes ask, want about %d", age, got, nodes, want)
		}
	}
}

// A check is as old for the question of a start as for the pull that would follow, and for
// the next start.
func TestJitterIsTheChecks(t *testing.T) {
	e := &Engine{Node: 7}
	checked := time.Unix(1_800_000_000, 0)
	was := e.jitter(name, checked)
	if was < 0 || was >= maxJitter || was != e.jitter(name, checked.UTC().Add(time.Millisecond)) {
		t.Errorf("got %v, then %v", was, e.jitter(name, checked))
	}
	for what, other := range map[string]float64{
		"another name":  e.jitter(name+"0", checked),
		"another check": e.jitter(name, checked.Add(time.Second)),
		"another node":  (&Engine{Node: 8}).jitter(name, checked),
	} {
		if other == was {
			t.Errorf("%s has the same jitter", what)
		}
	}
	if got := e.jitter(name, time.Time{}); got != 0 {
		t.Errorf("without a check: %v", got)
	}
}
