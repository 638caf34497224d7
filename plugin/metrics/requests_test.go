// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

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
	m := New()
	var states []health.State
	gather := func() map[string]float64 {
		t.Helper()
		r := prometheus.NewPedanticRegistry()
		if err := r.Register(troubleCollector{m.hosts, func() []health.State { return states }}); err != nil {
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
	m.Request(resolver.Observation{Host: "a.test", Method: "HEAD", Code: 200})
	expect(map[string]float64{"a.test": 0})
	states = []health.State{{Host: "https://a.test", Open: true}, {Host: "http://b.test:5000"}}
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

// The hosts of hosts.toml have values of their own, however many others came
// first, and take no place of theirs. Codes that nobody knows have one together.
func TestBoundedLabels(t *testing.T) {
	m := New()
	m.Request(resolver.Observation{Host: "stranger.test", Method: "GET", Code: 200})
	m.Request(resolver.Observation{Host: "mirror.test", Configured: true, Method: "GET", Code: 200})
	for i := range 2 * maxHosts {
		m.Request(resolver.Observation{Host: fmt.Sprintf("%d.test", i), Method: "GET", Code: i + 100})
	}
	m.Request(resolver.Observation{Host: "registry.test:443", Configured: true, Method: "GET", Code: 999})
	m.Request(resolver.Observation{Host: "Registry.test", Configured: true, Method: "GET"})
	for host, want := range map[string]string{
		"mirror.test": "mirror.test", "registry.test": "registry.test", "REGISTRY.test:443": "registry.test",
		"stranger.test": "stranger.test", "0.test": "0.test", "127.test": otherHosts,
	} {
		if got := m.Host(host); got != want {
			t.Errorf("%s is shown as %s, want %s", host, got, want)
		}
	}
	if m.hosts.strangers != maxHosts || len(m.hosts.known) != maxHosts+2 {
		t.Errorf("there are %d hosts, and %d strangers among them", len(m.hosts.known), m.hosts.strangers)
	}
	// A stranger that the operator names later leaves its place to another.
	m.Request(resolver.Observation{Host: "0.test", Configured: true})
	if got := m.Host("127.test"); got != "127.test" {
		t.Errorf("a host in the free place is shown as %s", got)
	}
	for code, want := range map[int]string{0: "0", 200: "200", 418: "418", 503: "503", 299: otherCodes, 999: otherCodes} {
		if got := codeOf(code); got != want {
			t.Errorf("%d is shown as %s, want %s", code, got, want)
		}
	}
}

// A mirror is in trouble in two ways in which it is asked: by HTTP and by HTTPS.
func TestOpenBreakersOfOneHostInTwoWays(t *testing.T) {
	m := New()
	r := prometheus.NewPedanticRegistry()
	troubled := func() []health.State {
		return []health.State{{Host: "http://mirror.test:5000", Open: true}, {Host: "https://mirror.test:5000", Open: true}}
	}
	if err := r.Register(troubleCollector{m.hosts, troubled}); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, metric := range families[0].Metric {
		if v := metric.Gauge.GetValue(); v != 1 {
			t.Errorf("%s: got %v, want 1", metric.Label[0].GetValue(), v)
		}
	}
}
