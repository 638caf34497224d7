// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/status"
)

const (
	// criNamespace is where CRI keeps its images.
	criNamespace = "k8s.io"
	// scrapeTimeout bounds how long a scrape waits for the database.
	scrapeTimeout = 5 * time.Second
)

var (
	staleImages = prometheus.NewDesc("pullwarden_stale_images",
		"Images that were last used although the registry of their name did not confirm them.", nil, nil)
	openImages = prometheus.NewDesc("pullwarden_open_images",
		"Images that no registry was ever asked about; open to every caller where none can say whose they are.", nil, nil)
	uncheckedImages = prometheus.NewDesc("pullwarden_unchecked_images",
		"Tags that no registry has confirmed since they point at their digest.", nil, nil)
)

// imageCollector counts images at the time of the scrape, in one pass over the records.
// Scrapes at the same time share it.
type imageCollector struct {
	list    func(context.Context, ...string) ([]images.Image, error)
	pass    *singleflight.Group
	timeout time.Duration
}

func newImageCollector(list func(context.Context, ...string) ([]images.Image, error)) imageCollector {
	return imageCollector{list, &singleflight.Group{}, scrapeTimeout}
}

// Describe implements prometheus.Collector.
func (c imageCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- staleImages
	ch <- openImages
	ch <- uncheckedImages
}

// Collect implements prometheus.Collector. There are no series when the database does
// not answer: a zero would end an alert, and an error would cost the metrics of the
// whole daemon.
func (c imageCollector) Collect(ch chan<- prometheus.Metric) {
	counts, ok := c.count()
	if !ok {
		return
	}
	for desc, n := range map[*prometheus.Desc]int{
		staleImages: counts.Stale, openImages: counts.Open, uncheckedImages: counts.Unchecked,
	} {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n))
	}
}

// count returns false when the database fails, or takes too long. The pass itself then
// goes on, and scrapes that come meanwhile wait for it: there is never more than one.
func (c imageCollector) count() (status.Counts, bool) {
	pass := c.pass.DoChan("", func() (any, error) {
		records, err := c.list(namespaces.WithNamespace(context.Background(), criNamespace))
		if err != nil {
			prefixlog.L().WithError(err).Warn("the images cannot be counted for the metrics")
			return nil, err
		}
		return status.Count(records), nil
	})
	timeout := time.NewTimer(c.timeout)
	defer timeout.Stop()
	select {
	case r := <-pass:
		counts, ok := r.Val.(status.Counts)
		return counts, ok
	case <-timeout.C:
		return status.Counts{}, false
	}
}
