// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pullwarden/pullwarden/internal/registryname"
	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/store"
)

const (
	// maxHosts bounds the values of the label host that the operator has not named
	// in a hosts.toml: image references, which tenants choose, can name any number
	// of them.
	maxHosts = 64
	// otherHosts is the value for all hosts beyond that.
	otherHosts = "other"
	// otherCodes is the value of the label code for statuses that nobody has
	// registered: a registry can make up any number of them.
	otherCodes = "other"
	// criNamespace is where CRI keeps its images.
	criNamespace = "k8s.io"
	// scrapeTimeout bounds how long a scrape waits for the database.
	scrapeTimeout = 5 * time.Second
)

// metrics are pullwarden's part of containerd's metrics endpoint.
type metrics struct {
	decisions  *prometheus.CounterVec
	observed   *prometheus.CounterVec
	verify     *prometheus.HistogramVec
	requests   *prometheus.CounterVec
	coalesced  prometheus.Counter
	stale      prometheus.GaugeFunc
	lastReload prometheus.Gauge
	auditLost  prometheus.Counter
	lastHosts  prometheus.Gauge
	breakers   *prometheus.Desc

	// troubled lists the hosts that are suspected or in trouble; nil for none.
	troubled func() []health.State

	mu sync.Mutex
	// hosts are the values of the label host; true for those that the operator has
	// named, which are as many as there are. Of the others, there are at most
	// maxHosts. The set only grows. An LRU would bound nothing: the counters keep
	// the series of an evicted host, and each eviction would let in one more.
	hosts     map[string]bool
	strangers int // in hosts
}

func newMetrics(records images.Store) *metrics {
	return &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pullwarden_decisions_total",
			Help: "Requests for an image, by the policy that applied, the outcome and its reason.",
		}, []string{"policy", "outcome", "reason"}),
		// Apart from the decisions: those took effect, and alerts and rates of failures
		// are made of them.
		observed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pullwarden_observed_decisions_total",
			Help: "Pulls that containerd made by itself under mode = \"Observe\", by the policy that would have applied, its outcome and the reason; NotObserved: nobody knows.",
		}, []string{"policy", "outcome", "reason"}),
		verify: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pullwarden_verify_duration_seconds",
			Help:    "Time until a registry confirmed or changed a digest, by the host that answered.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"host"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pullwarden_registry_requests_total",
			Help: "HTTP requests to registries and mirrors; code 0 means that there was no answer.",
		}, []string{"host", "method", "code"}),
		coalesced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pullwarden_coalesced_total",
			Help: "Requests that shared the check, and the pull, of an equal one.",
		}),
		stale: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pullwarden_stale_images",
			Help: "Images that were last used although the registry of their name did not confirm them.",
		}, func() float64 { return countStaleImages(records) }),
		lastReload: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pullwarden_rules_last_reload_successful",
			Help: "1 when the rule files were last read without an error, else 0.",
		}),
		auditLost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pullwarden_audit_lost_total",
			Help: "Decisions that could not be written to the audit log.",
		}),
		lastHosts: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pullwarden_hosts_last_reload_successful",
			Help: "1 when the newest hosts.toml files, with the certificates that they name, are all in force, else 0.",
		}),
		breakers: prometheus.NewDesc("pullwarden_registry_open_breakers",
			"1 while a host is not asked because it is in trouble, unless there is nothing else to use.",
			[]string{"host"}, nil),
		hosts: map[string]bool{},
	}
}

// register registers all metrics. After an error some may be registered.
func (m *metrics) register(r prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{m.decisions, m.observed, m.verify, m.requests, m.coalesced, m.stale, m.lastReload, m.lastHosts, m.auditLost, breakerCollector{m}} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// observe counts an outcome. A coalesced one did no check of its own.
func (m *metrics) observe(_ context.Context, o engine.Outcome) {
	decisions := m.decisions
	if o.Observed {
		decisions = m.observed
	}
	decisions.WithLabelValues(o.Directives.Policy.String(), string(o.Kind), string(o.Reason)).Inc()
	if o.Coalesced {
		m.coalesced.Inc()
		return
	}
	if o.Host != "" {
		m.verify.WithLabelValues(m.host(o.Host)).Observe(o.CheckTime.Seconds())
	}
}

// request counts a request to a registry.
func (m *metrics) request(o resolver.Observation) {
	host := registryname.Canonical(o.Host)
	if o.Configured {
		m.configured(host)
	}
	m.requests.WithLabelValues(m.host(host), o.Method, codeOf(o.Code)).Inc()
}

// codeOf returns the value of the label code: the status, 0 for none.
func codeOf(status int) string {
	if status != 0 && http.StatusText(status) == "" {
		return otherCodes
	}
	return strconv.Itoa(status)
}

// configured makes a host that the operator has named a value of the label host.
func (m *metrics) configured(host string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if configured, known := m.hosts[host]; known && !configured {
		m.strangers--
	}
	m.hosts[host] = true
}

// reloaded notes whether the rule files were read without an error.
func (m *metrics) reloaded(ok bool) { setFlag(m.lastReload, ok) }

// hostsReloaded notes whether the newest hosts.toml files are all in force.
func (m *metrics) hostsReloaded(ok bool) { setFlag(m.lastHosts, ok) }

func setFlag(g prometheus.Gauge, on bool) {
	if on {
		g.Set(1)
	} else {
		g.Set(0)
	}
}

// host returns the value of the label host: the host by its canonical name, or
// otherHosts once there are too many of them.
func (m *metrics) host(host string) string {
	host = registryname.Canonical(host)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.hosts[host]; !known {
		if m.strangers >= maxHosts {
			return otherHosts
		}
		m.hosts[host] = false
		m.strangers++
	}
	return host
}

// breakerCollector collects, for every host that is a value of the label host,
// whether its breaker is open at the time of the scrape.
type breakerCollector struct{ metrics *metrics }

// Describe implements prometheus.Collector.
func (c breakerCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.metrics.breakers }

// Collect implements prometheus.Collector. The value of otherHosts is the number
// of open breakers beyond the bound.
func (c breakerCollector) Collect(ch chan<- prometheus.Metric) {
	m := c.metrics
	open := map[string]int{}
	if m.troubled != nil {
		for _, s := range m.troubled() {
			_, host, _ := strings.Cut(s.Host, "://")
			if host = m.host(host); s.Open {
				open[host]++
			}
		}
	}
	m.mu.Lock()
	for host := range m.hosts {
		open[host] += 0
	}
	m.mu.Unlock()
	for host, n := range open {
		ch <- prometheus.MustNewConstMetric(m.breakers, prometheus.GaugeValue, float64(n), host)
	}
}

// countStaleImages counts the records with a stale mark. A record by digest
// repeats the mark of a tag and is not counted. It returns 0 when the database
// does not answer: a scrape has no place for an error.
func countStaleImages(records images.Store) float64 {
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(context.Background(), criNamespace), scrapeTimeout)
	defer cancel()
	stale, err := records.List(ctx, `labels."`+store.LabelStaleSince+`"`)
	if err != nil {
		return 0
	}
	n := 0
	for _, img := range stale {
		if !strings.Contains(img.Name, "@") && !store.Decode(img.Name, img.Target.Digest, img.Labels).Stale.Since.IsZero() {
			n++
		}
	}
	return float64(n)
}
