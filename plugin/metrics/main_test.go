// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"maps"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/health"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gather scrapes a collector, and returns the values of its series: by the name of the
// metric and the values of the labels.
func gather(t *testing.T, collectors ...prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(collectors...)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			series := f.GetName()
			for _, l := range m.GetLabel() {
				series += " " + l.GetValue()
			}
			got[series] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return got
}

func wantSeries(t *testing.T, got, want map[string]float64) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The names and helps of all metrics are as Prometheus wants them.
func TestLint(t *testing.T) {
	t.Parallel()
	m := New()
	r := prometheus.NewPedanticRegistry()
	err := m.Register(r, Sources{
		Images:   func(context.Context, ...string) ([]images.Image, error) { return nil, nil },
		Rules:    func() *policy.Rules { return policy.NewRules(policy.Overrides{}, nil) },
		Troubled: func() []health.State { return nil },

		BackgroundPulls: func() int { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Request(resolver.Observation{Host: "a.test", Method: "GET", Quota: &resolver.Quota{Limit: 1}})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
