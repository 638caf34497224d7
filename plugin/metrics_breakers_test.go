// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// Every host that was asked says whether its breaker is open; beyond the bound
// they say it together.
func TestOpenBreakers(t *testing.T) {
	m := newMetrics(nil)
	gather := func() map[string]float64 {
		t.Helper()
		r := prometheus.NewPedanticRegistry()
		if err := r.Register(breakerCollector{m}); err != nil {
			t.Fatal(err)
		}
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, metric := range f.Metric {
				got[metric.Label[0].GetValue()] = metric.Gauge.GetValue()
			}
		}
		return got
	}
	expect := func(want map[string]float64) {
		t.Helper()
		if got := gather(); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	expect(map[string]float64{})
	m.request(resolver.Observation{Host: "a.test", Method: "HEAD", Code: 200})
	expect(map[string]float64{"a.test": 0})
	states := []health.State{{Host: "https://a.test", Open: true}, {Host: "http://b.test:5000"}}
	m.troubled = func() []health.State { return states }
	expect(map[string]float64{"a.test": 1, "b.test:5000": 0})
	states = nil
	expect(map[string]float64{"a.test": 0, "b.test:5000": 0})

	for i := range 2 * maxHosts {
		states = append(states, health.State{Host: fmt.Sprintf("https://%d.test", i), Open: true})
	}
	if got := gather(); len(got) != maxHosts+1 || got[otherHosts] != maxHosts+2 {
		t.Errorf("got %d hosts, %v together", len(got), got[otherHosts])
	}
}
