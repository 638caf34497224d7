// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics is pullwarden's part of containerd's metrics endpoint. It decides
// nothing: it counts outcomes and requests that others tell it of, and reads the state of
// the node when it is scraped. docs/metrics.md lists what there is, with the bounds of
// each label.
package metrics

import (
	"context"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// The labels that several metrics have.
const (
	labelHost = "host"
	labelRule = "rule"
)

// Metrics counts. It is safe for concurrent use, and its calls never wait for I/O. Make
// one with [New].
type Metrics struct {
	hosts     *hosts
	decisions *decisions
	requests  *requests
	starts    starts
	quotas    *quotas
	matches   *matches
	reloaded  prometheus.Gauge
	hostFiles prometheus.Gauge
	auditLost prometheus.Counter

	background background
}

// Sources are what a scrape reads. All are needed, and are called from any goroutine.
type Sources struct {
	// Images lists the image records in the namespace of the context.
	Images func(context.Context, ...string) ([]images.Image, error)
	// Rules returns the rules in force.
	Rules func() *policy.Rules
	// Troubled lists the hosts that are suspected or in trouble.
	Troubled func() []health.State
	// BackgroundPulls is how many are under way.
	BackgroundPulls func() int
}

// New returns metrics that have counted nothing, and that nobody sees before Register.
func New() *Metrics {
	h := newHosts()
	return &Metrics{
		hosts:     h,
		decisions: newDecisions(h),
		requests:  newRequests(),
		starts:    newStarts(),
		quotas:    newQuotas(),
		matches:   newMatches(),

		background: newBackground(),
		reloaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pullwarden_rules_last_reload_successful",
			Help: "1 when the rule files were last read without an error, else 0.",
		}),
		hostFiles: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pullwarden_hosts_last_reload_successful",
			Help: "1 when the newest hosts.toml files, with the certificates that they name, are all in force, else 0.",
		}),
		auditLost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pullwarden_audit_lost_total",
			Help: "Decisions that could not be written to the audit log.",
		}),
	}
}

// Register lets scrapes see the metrics. It is called once. After an error some may be
// registered.
func (m *Metrics) Register(r prometheus.Registerer, s Sources) error {
	collectors := []prometheus.Collector{
		m.starts.total, m.quotas, m.reloaded, m.hostFiles, m.auditLost,
		m.background.total, newBackgroundGauge(s.BackgroundPulls),
		troubleCollector{m.hosts, s.Troubled},
		ruleCollector{m.matches, s.Rules},
		newImageCollector(s.Images),
	}
	collectors = append(collectors, m.decisions.collectors()...)
	collectors = append(collectors, m.requests.collectors()...)
	for _, c := range collectors {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// Decision counts an outcome. The end of a pull in the background is no decision.
func (m *Metrics) Decision(_ context.Context, o engine.Outcome) {
	if o.Background {
		m.background.count(o)
		return
	}
	m.decisions.count(o)
	m.matches.count(o.Directives.Rule)
}

// Request counts a request to a registry, and keeps what the registry said of its quota.
func (m *Metrics) Request(o resolver.Observation) {
	if o.Configured {
		m.hosts.configure(o.Host)
	}
	host := m.hosts.value(o.Host)
	m.requests.count(host, o)
	if o.Quota != nil && host != otherHosts {
		m.quotas.set(host, *o.Quota)
	}
}

// Host returns the value of the label host for a host: its canonical name, or "other"
// beyond the bound.
func (m *Metrics) Host(host string) string { return m.hosts.value(host) }

// Reloaded notes whether the rule files were read without an error.
func (m *Metrics) Reloaded(ok bool) { setFlag(m.reloaded, ok) }

// HostsReloaded notes whether the newest hosts.toml files are all in force.
func (m *Metrics) HostsReloaded(ok bool) { setFlag(m.hostFiles, ok) }

// AuditLost counts a decision that could not be written to the audit log.
func (m *Metrics) AuditLost() { m.auditLost.Inc() }

func setFlag(g prometheus.Gauge, ok bool) {
	value := 0.0
	if ok {
		value = 1
	}
	g.Set(value)
}
