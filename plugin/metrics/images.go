// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/pullwarden/pullwarden/internal/namespace"
	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/status"
)

const (
	// scrapeTimeout bounds how long a scrape waits for the database.
	scrapeTimeout = 5 * time.Second
)

var (
	staleImages = prometheus.NewDesc("pullwarden_stale_images",
		"Images that were last used although the registry of their name did not confirm them.", nil, nil)
	openImages = prometheus.NewDesc("pullwarden_open_images",
		"Images that no registry was ever asked about; open to every caller where none can say whose they are.", nil, nil)
	pinnedImages = prometheus.NewDesc("pullwarden_pinned_images",
		"Images that pullwarden keeps from the kubelet's garbage collection.", nil, nil)
	pinnedBytes = prometheus.NewDesc("pullwarden_pinned_bytes",
		"Their sizes together, as crictl images shows them: what pin_limit bounds.", nil, nil)
	uncheckedImages = prometheus.NewDesc("pullwarden_unchecked_images",
		"Tags that no registry has confirmed since they point at their digest.", nil, nil)
)

// imageCollector counts images at the time of the scrape, in one pass over the records.
// Scrapes at the same time share it.
type imageCollector struct {
	list    func(context.Context, ...string) ([]images.Image, error)
	pinned  func(context.Context, []images.Image) (n int, bytes int64)
	pass    *singleflight.Group
	timeout time.Duration
}

func newImageCollector(s Sources) imageCollector {
	return imageCollector{s.Images, s.Pinned, &singleflight.Group{}, scrapeTimeout}
}

// imageCounts are the results of a pass.
type imageCounts struct {
	status.Counts
	pinned int
	bytes  int64 // of those
}

// Describe implements prometheus.Collector.
func (c imageCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- staleImages
	ch <- openImages
	ch <- uncheckedImages
	ch <- pinnedImages
	ch <- pinnedBytes
}

// Collect implements prometheus.Collector. There are no series when the database does
// not answer: a zero would end an alert, and an error would cost the metrics of the
// whole daemon.
func (c imageCollector) Collect(ch chan<- prometheus.Metric) {
	counts, ok := c.count()
	if !ok {
		return
	}
	for desc, n := range map[*prometheus.Desc]float64{
		staleImages: float64(counts.Stale), openImages: float64(counts.Open), uncheckedImages: float64(counts.Unchecked),
		pinnedImages: float64(counts.pinned), pinnedBytes: float64(counts.bytes),
	} {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, n)
	}
}

// count returns false when the database fails, or takes too long. The pass itself then
// goes on, and scrapes that come meanwhile wait for it: there is never more than one.
func (c imageCollector) count() (imageCounts, bool) {
	pass := c.pass.DoChan("", func() (any, error) {
		ctx := namespace.CRI(context.Background())
		records, err := c.list(ctx)
		if err != nil {
			prefixlog.L().WithError(err).Warn("the images cannot be counted for the metrics")
			return nil, err
		}
		counts := imageCounts{Counts: status.Count(records)}
		counts.pinned, counts.bytes = c.pinned(ctx, records)
		return counts, nil
	})
	timeout := time.NewTimer(c.timeout)
	defer timeout.Stop()
	select {
	case r := <-pass:
		counts, ok := r.Val.(imageCounts)
		return counts, ok
	case <-timeout.C:
		return imageCounts{}, false
	}
}
