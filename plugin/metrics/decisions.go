// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pullwarden/pullwarden/plugin/engine"
)

// decisions count outcomes. Their labels are those of the contract: each has the values
// of one Go type.
type decisions struct {
	hosts     *hosts
	total     *prometheus.CounterVec
	observed  *prometheus.CounterVec // a metric of its own: these took no effect
	verify    *prometheus.HistogramVec
	coalesced prometheus.Counter
}

func newDecisions(h *hosts) *decisions {
	return &decisions{
		hosts: h,
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pullwarden_decisions_total",
			Help: "Requests for an image, by the policy that applied, the outcome and its reason.",
		}, []string{"policy", "outcome", "reason"}),
		observed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pullwarden_observed_decisions_total",
			Help: "Pulls that containerd made by itself under mode = \"Observe\", by the policy that would have applied, its outcome and the reason; NotObserved: nobody knows.",
		}, []string{"policy", "outcome", "reason"}),
		verify: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pullwarden_verify_duration_seconds",
			Help:    "Time until a registry confirmed or changed a digest, by the host that answered.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{labelHost}),
		coalesced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pullwarden_coalesced_total",
			Help: "Requests that shared the check, and the pull, of an equal one.",
		}),
	}
}

func (d *decisions) collectors() []prometheus.Collector {
	return []prometheus.Collector{d.total, d.observed, d.verify, d.coalesced}
}

// count counts an outcome. A coalesced one did no check of its own.
func (d *decisions) count(o engine.Outcome) {
	total := d.total
	if o.Observed {
		total = d.observed
	}
	total.WithLabelValues(o.Directives.Policy.String(), string(o.Kind), string(o.Reason)).Inc()
	if o.Coalesced {
		d.coalesced.Inc()
		return
	}
	if o.Host != "" {
		host, _, _ := strings.Cut(o.Host, "/") // the path of a mirror at the registry's address
		d.verify.WithLabelValues(d.hosts.value(host)).Observe(o.CheckTime.Seconds())
	}
}
