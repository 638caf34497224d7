// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pullwarden/pullwarden/plugin/pin"
)

// newReleased has a series for each reason from the start, so that the first release is
// an increase.
func newReleased() *prometheus.CounterVec {
	released := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pullwarden_pins_released_total",
		Help: "Images that are pinned no more, or were too large to be.",
	}, []string{"reason"})
	for _, reason := range []pin.Reason{pin.ByRule, pin.ForRoom, pin.TooLarge} {
		released.WithLabelValues(string(reason))
	}
	return released
}

// Released counts an image that is pinned no more.
func (m *Metrics) Released(reason pin.Reason) { m.released.WithLabelValues(string(reason)).Inc() }
