// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pullwarden/pullwarden/plugin/engine"
)

// background counts pulls that no request waits for any more.
type background struct{ total *prometheus.CounterVec }

// The values of the label result.
const (
	succeeded = "succeeded"
	failed    = "failed"
	canceled  = "canceled" // the daemon stopped
)

func newBackground() background {
	b := background{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pullwarden_background_pulls_total",
		Help: "Pulls that went on in the background after a pull_deadline and have ended, by their result.",
	}, []string{"result"})}
	for _, result := range []string{succeeded, failed, canceled} {
		b.total.WithLabelValues(result)
	}
	return b
}

func (b background) count(o engine.Outcome) {
	result := succeeded
	switch {
	case o.Kind == engine.Failed && o.Reason == engine.ReasonCanceled:
		result = canceled
	case o.Kind == engine.Failed:
		result = failed
	}
	b.total.WithLabelValues(result).Inc()
}

// newBackgroundGauge shows what under way tells at each scrape.
func newBackgroundGauge(underWay func() int) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pullwarden_background_pulls_under_way",
		Help: "Pulls that go on in the background after a pull_deadline.",
	}, func() float64 { return float64(underWay()) })
}
