// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

// noRule is the value of the label rule where no rule matched. Names of rules have a "#".
const noRule = "none"

var (
	rulesInForce = prometheus.NewDesc("pullwarden_rules", "Rules in use.", nil, nil)
	ruleMatches  = prometheus.NewDesc("pullwarden_rule_matches_total",
		`Requests for an image, by the rule that matched; "none" for those without one.`,
		[]string{labelRule}, nil)
)

// matches count the requests that each rule matched, by its name: its file and its place
// there. Safe for concurrent use.
type matches struct {
	mu     sync.Mutex
	byName map[string]uint64
}

func newMatches() *matches { return &matches{byName: map[string]uint64{}} }

// count counts a request that a rule matched; nil for none.
func (m *matches) count(rule *policy.Rule) {
	name := noRule
	if rule != nil {
		name = rule.Name()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byName[name]++
}

// of returns the count of each of the names, and forgets all others: the series of a
// rule that is gone ends, as those of other things do that a program no longer has. A
// rule of that name that comes back begins at zero, which Prometheus takes for a restart
// of the counter.
func (m *matches) of(names []string) map[string]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := make(map[string]uint64, len(names))
	for _, name := range names {
		kept[name] = m.byName[name]
	}
	m.byName = kept
	return maps.Clone(kept)
}

// ruleCollector collects the rules in force and their matches at the time of the scrape.
// Each rule has a series from the moment it is in force, so that one that never matches
// can be seen.
type ruleCollector struct {
	matches *matches
	rules   func() *policy.Rules
}

// Describe implements prometheus.Collector.
func (c ruleCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- rulesInForce
	ch <- ruleMatches
}

// Collect implements prometheus.Collector.
func (c ruleCollector) Collect(ch chan<- prometheus.Metric) {
	names := []string{noRule}
	for _, e := range c.rules().All() {
		if e.Rule != nil {
			names = append(names, e.Rule.Name())
		}
	}
	ch <- prometheus.MustNewConstMetric(rulesInForce, prometheus.GaugeValue, float64(len(names)-1))
	for name, n := range c.matches.of(names) {
		ch <- prometheus.MustNewConstMetric(ruleMatches, prometheus.CounterValue, float64(n), name)
	}
}
