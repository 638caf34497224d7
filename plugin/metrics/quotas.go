// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pullwarden/pullwarden/resolver"
)

// quotaLife is how long a quota counts whose registry does not say when it ends.
const quotaLife = time.Hour

var (
	quotaLimit = prometheus.NewDesc("pullwarden_registry_ratelimit_limit",
		"Requests that the host allows in its time window, as it last said.", []string{labelHost}, nil)
	quotaRemaining = prometheus.NewDesc("pullwarden_registry_ratelimit_remaining",
		"Requests that are left of the host's limit, as it last said.", []string{labelHost}, nil)
)

// quotas are what registries last said of their limits, by the value of the label host.
// Safe for concurrent use.
type quotas struct {
	mu     sync.Mutex
	byHost map[string]quota
}

type quota struct {
	resolver.Quota
	until time.Time // when its window has ended, and it says nothing any more
}

func newQuotas() *quotas { return &quotas{byHost: map[string]quota{}} }

func (q *quotas) set(host string, said resolver.Quota) {
	life := said.Window
	if life == 0 {
		life = quotaLife
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.byHost[host] = quota{said, time.Now().Add(life)}
}

// current returns the quotas whose windows have not ended.
func (q *quotas) current() map[string]quota {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.byHost, func(_ string, said quota) bool { return !now.Before(said.until) })
	return maps.Clone(q.byHost)
}

// Describe implements prometheus.Collector.
func (q *quotas) Describe(ch chan<- *prometheus.Desc) {
	ch <- quotaLimit
	ch <- quotaRemaining
}

// Collect implements prometheus.Collector.
func (q *quotas) Collect(ch chan<- prometheus.Metric) {
	for host, said := range q.current() {
		ch <- prometheus.MustNewConstMetric(quotaLimit, prometheus.GaugeValue, float64(said.Limit), host)
		ch <- prometheus.MustNewConstMetric(quotaRemaining, prometheus.GaugeValue, float64(said.Remaining), host)
	}
}
