// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver"
)

// The last word of a host counts until its window ends, or for an hour. Hosts beyond the
// bound have none together.
func TestQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		said := func(host string, limit, remaining int64, window time.Duration) {
			m.Request(resolver.Observation{Host: host, Method: "HEAD", Quota: &resolver.Quota{Limit: limit, Remaining: remaining, Window: window}})
		}
		values := func(host string, limit, remaining float64) map[string]float64 {
			return map[string]float64{"pullwarden_registry_ratelimit_limit " + host: limit, "pullwarden_registry_ratelimit_remaining " + host: remaining}
		}
		said("registry-1.docker.io", 100, 99, 6*time.Hour)
		said("docker.io", 100, 98, 6*time.Hour)
		wantSeries(t, gather(t, m.quotas), values("docker.io", 100, 98))
		m.Request(resolver.Observation{Host: "docker.io", Method: "HEAD"}) // says nothing
		time.Sleep(6*time.Hour - time.Second)
		wantSeries(t, gather(t, m.quotas), values("docker.io", 100, 98))
		time.Sleep(time.Second)
		wantSeries(t, gather(t, m.quotas), map[string]float64{})

		said("a.test", 10, 0, 0)
		time.Sleep(quotaLife - time.Nanosecond)
		wantSeries(t, gather(t, m.quotas), values("a.test", 10, 0))
		time.Sleep(time.Nanosecond)
		wantSeries(t, gather(t, m.quotas), map[string]float64{})

		for i := range 2 * maxHosts {
			said(fmt.Sprintf("%d.test", i), 10, 1, 0)
		}
		got := gather(t, m.quotas)
		if _, ok := got["pullwarden_registry_ratelimit_limit "+otherHosts]; ok || len(got) != 2*(maxHosts-2) {
			t.Errorf("%d series: %v", len(got), got)
		}
	})
}
