// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"testing"
	"time"
)

// few runs some arms of a scenario with so many nodes; none named = all but stock
// containerd's.
func few(t *testing.T, name string, nodes int, judge func(t *testing.T, s *Scenario, r Result), arms ...string) {
	t.Run(name, func(t *testing.T) {
		all := Scenarios()
		s := all[slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })]
		s.Nodes = nodes
		for _, arm := range s.Arms {
			if !arm.Stock && (arms == nil || slices.Contains(arms, arm.Name)) {
				t.Run(arm.Name, func(t *testing.T) { judge(t, &s, Run(t, &s, arm)) })
			}
		}
	})
}

// series are the counts of a result, of the registry and the pods.
func (r *Result) series() *Series { return &Series{seconds: r.Registry} }

// Whatever a registry does for ten minutes, each pod starts, at once; when it is back it
// gets at most twice the requests that it had before; and a host in trouble gets one probe
// for each pod that wants it at most.
func TestOutages(t *testing.T) {
	for _, name := range []string{"down", "silent", "slow", "limited", "mirror"} {
		few(t, name, 30, func(t *testing.T, s *Scenario, r Result) {
			if r.Totals["failures"] > 0 || r.Totals["delayed"] > 0 || (r.Totals["stale"] > 0) != (name != "mirror") {
				t.Errorf("%v", r.Totals)
			}
			counts := r.series()
			if s.Mirror == nil {
				if after := counts.rate(20*time.Minute, 30*time.Minute, allRequests()...); after > 2*r.Steady {
					t.Errorf("%.2f requests a second after the recovery, %.2f before", after, r.Steady)
				}
			}
			started := counts.sum(10*time.Minute, 21*time.Minute, Started)
			if probes := r.Totals["probes"]; probes > started+s.Nodes+started/4 {
				t.Errorf("%d probes for %d starts on %d nodes", probes, started, s.Nodes)
			}
		})
	}
}

// Nodes that have checked their images together, or start all of their pods together, do
// not ask together again.
func TestNodesAskApart(t *testing.T) {
	few(t, "starts", 50, func(t *testing.T, s *Scenario, r Result) {
		counts := r.series()
		mean := counts.rate(10*time.Minute, s.Length, Checks)
		peak := counts.peak(0, s.Length, time.Minute, Checks)
		if apart := peak <= 2*mean; apart != (r.Arm != "without jitter") || mean == 0 {
			t.Errorf("%.2f checks a second within a minute, %.2f in the mean", peak, mean)
		}
	}, "without jitter", "max_age 10m")
}

// No node makes more checks than its budget lets it, and all pods of a reboot start.
func TestBudgetOfAFleet(t *testing.T) {
	few(t, "reboot", 30, func(t *testing.T, s *Scenario, r Result) {
		if r.Totals["failures"] > 0 || r.Totals["started"] < s.Nodes*s.Pods {
			t.Errorf("%v", r.Totals)
		}
		if r.Arm != budgeted.Name {
			return
		}
		const minute = 6 + 3 // and what the bucket has
		if most := r.series().peak(0, s.Length, time.Minute, Checks) * 60; most > float64(minute*s.Nodes) {
			t.Errorf("%.0f checks in a minute, of %d nodes", most, s.Nodes)
		}
		if after := r.series().rate(10*time.Minute, 12*time.Minute, allRequests()...); after > 2*r.Steady {
			t.Errorf("%.2f requests a second after the reboot, %.2f before", after, r.Steady)
		}
	})
}

// A new image reaches all nodes, by as many downloads.
func TestRollout(t *testing.T) {
	few(t, "rollout", 30, func(t *testing.T, s *Scenario, r Result) {
		if r.Totals["failures"] > 0 || r.Totals["delayed"] > 0 || r.Totals["manifests"] > s.Nodes {
			t.Errorf("%v", r.Totals)
		}
		if r.Arm == eachStart.Name && (r.Totals["manifests"] != s.Nodes || r.Totals["outdated"] > 0) {
			t.Errorf("%v", r.Totals)
		}
	})
}

// A fleet without an account starts under Docker Hub's limits: nothing is refused but
// downloads beyond the limit.
func TestDockerHubsLimits(t *testing.T) {
	few(t, "hub", 100, func(t *testing.T, _ *Scenario, r Result) {
		if r.Totals["failures"] > 0 || r.Totals["refused"] > 0 {
			t.Errorf("%v", r.Totals)
		}
	})
}

// Beyond these limits nobody fails either: nodes that get no download stay with the image that
// they have.
func TestBeyondDockerHubsLimits(t *testing.T) {
	s := dockerHub()
	s.Nodes, s.Addresses, s.Warmup, s.Length = 150, 1, 0, 90*time.Minute
	r := Run(t, &s, eachStart)
	if r.Totals["failures"] > 0 || r.Totals["delayed"] > 0 || r.Totals["refused"] == 0 || r.Totals["stale"] == 0 {
		t.Errorf("%v", r.Totals)
	}
	if got := r.Totals["manifests"] - r.Totals["refused"]; got != 100 {
		t.Errorf("%d downloads", got)
	}
}
