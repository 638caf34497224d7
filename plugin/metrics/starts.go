// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pullwarden/pullwarden/plugin/engine"
)

// starts count the answers to kubelets that start containers.
type starts struct{ total *prometheus.CounterVec }

func newStarts() starts {
	s := starts{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pullwarden_starts_total",
		Help: "Questions whether an image is there, before the start of a container, that govern = \"Starts\" holds for, by the answer.",
	}, []string{"answer"})}
	for _, answer := range engine.StartAnswers() {
		s.total.WithLabelValues(string(answer))
	}
	return s
}

// Start counts an answer.
func (m *Metrics) Start(answer engine.StartAnswer) {
	m.starts.total.WithLabelValues(string(answer)).Inc()
}
