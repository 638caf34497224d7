// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import "time"

// Result is how one arm of a scenario went.
type Result struct {
	Scenario string `json:"scenario"`
	Title    string `json:"title"`
	Arm      string `json:"arm"`
	Nodes    int    `json:"nodes"`
	Pods     int    `json:"pods"`

	Columns  []string         `json:"columns"`
	Registry [][columns]int32 `json:"registry"` // by the second
	Mirror   [][columns]int32 `json:"mirror"`

	// Steady, Peak and Second are requests a second at the registry: the mean of the
	// scenario's first span, and in the second one the greatest mean of ten seconds, and of
	// one.
	Steady float64 `json:"steady"`
	Peak   float64 `json:"peak"`
	Second float64 `json:"second"`
	// Probes is the greatest mean of probes a second, at any host, over a minute.
	Probes float64        `json:"probes"`
	Totals map[string]int `json:"totals"`
}

// result sums up what happened.
func (f *fleet) result() Result {
	s := f.scenario
	all := &Series{}
	all.add(f.origin.counts)
	r := Result{
		Scenario: s.Name, Title: s.Title, Arm: f.arm.Name, Nodes: s.Nodes, Pods: s.Pods, Columns: Columns[:],
		Steady: f.origin.counts.rate(s.Steady.From, s.Steady.To, allRequests()...),
		Peak:   f.origin.counts.peak(s.After.From, s.After.To, peakOver, allRequests()...),
		Second: f.origin.counts.peak(s.After.From, s.After.To, time.Second, allRequests()...),
		Probes: f.origin.counts.peak(0, s.Length, probesOver, Probes),
		Totals: map[string]int{},
	}
	if f.mirror != nil {
		all.add(f.mirror.counts)
		r.Mirror = f.mirror.counts.seconds
		r.Probes = max(r.Probes, f.mirror.counts.peak(0, s.Length, probesOver, Probes))
	}
	all.add(f.pods)
	for c := range columns {
		r.Totals[Columns[c]] = all.sum(0, s.Length, c)
	}
	own := &Series{}
	own.add(f.origin.counts)
	own.add(f.pods)
	r.Registry = own.seconds
	return r
}
