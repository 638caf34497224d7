// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// otherCodes is the value of the label code for statuses that nobody has registered: a
// registry can make up any number of them.
const otherCodes = "other"

// requests count HTTP requests to registries.
type requests struct {
	total    *prometheus.CounterVec
	warnings *prometheus.CounterVec
}

func newRequests() *requests {
	return &requests{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pullwarden_registry_requests_total",
			Help: "HTTP requests to registries and mirrors; code 0 means that there was no answer.",
		}, []string{labelHost, "method", "code"}),
		warnings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pullwarden_registry_warnings_total",
			Help: "Warnings in the answers of registries and mirrors (OCI distribution specification); the log has their texts.",
		}, []string{labelHost}),
	}
}

func (r *requests) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.total, r.warnings}
}

// count counts a request to a host, given by its label. A host's warnings are counted
// from zero: Prometheus sees no increase in a series that begins with its first warning.
func (r *requests) count(host string, o resolver.Observation) {
	r.total.WithLabelValues(host, o.Method, codeOf(o.Code)).Inc()
	r.warnings.WithLabelValues(host).Add(float64(len(o.Warnings)))
}

// codeOf returns the value of the label code: the status, 0 for none.
func codeOf(status int) string {
	if status != 0 && http.StatusText(status) == "" {
		return otherCodes
	}
	return strconv.Itoa(status)
}

var openBreakers = prometheus.NewDesc("pullwarden_registry_open_breakers",
	"1 while a host is not asked because it is in trouble, unless there is nothing else to use.",
	[]string{labelHost}, nil)

// troubleCollector collects, for every host that is a value of the label host,
// whether its breaker is open at the time of the scrape.
type troubleCollector struct {
	hosts    *hosts
	troubled func() []health.State
}

// Describe implements prometheus.Collector.
func (c troubleCollector) Describe(ch chan<- *prometheus.Desc) { ch <- openBreakers }

// Collect implements prometheus.Collector. The value of otherHosts is the number
// of open breakers beyond the bound.
func (c troubleCollector) Collect(ch chan<- prometheus.Metric) {
	open := map[string]int{}
	for _, s := range c.troubled() {
		_, host, _ := strings.Cut(s.Host, "://")
		if host = c.hosts.value(host); s.Open {
			if open[host]++; host != otherHosts {
				open[host] = 1
			}
		}
	}
	for _, host := range c.hosts.all() {
		open[host] += 0
	}
	for host, n := range open {
		ch <- prometheus.MustNewConstMetric(openBreakers, prometheus.GaugeValue, float64(n), host)
	}
}
