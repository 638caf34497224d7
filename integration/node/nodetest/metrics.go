// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// FreeAddress returns an address of the loopback that nobody listens on, and that is the
// test's until its end.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, release, err := resolvertest.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return address
}

// MetricsAt has the daemon serve its metrics at an address.
func MetricsAt(address string) Option {
	return Tables(fmt.Sprintf("[plugins.'io.containerd.server.v1.metrics']\n  address = %q\n", address))
}

// Scrape returns the daemon's metrics at an address, as text.
func (n *Node) Scrape(address string) string {
	n.T.Helper()
	body := scrape(n.T, address)
	defer func() { _ = body.Close() }() // it has been read
	text, err := io.ReadAll(body)
	n.Must(err)
	return string(text)
}

func scrape(t testing.TB, address string) io.ReadCloser {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://"+address+"/v1/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Body
}

// Scraped are the metrics of one scrape, by name.
type Scraped map[string]*dto.MetricFamily

// Scrape reads the metrics that a daemon serves at an address.
func Scrape(t testing.TB, address string) Scraped {
	t.Helper()
	body := scrape(t, address)
	defer func() { _ = body.Close() }() // it has been read
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// Value returns the value of a gauge or counter, by its labels; false for no such series.
func (s Scraped) Value(name string, labels map[string]string) (float64, bool) {
	for _, m := range s[name].GetMetric() {
		got := map[string]string{}
		for _, l := range m.GetLabel() {
			got[l.GetName()] = l.GetValue()
		}
		if maps.Equal(got, labels) || len(got)+len(labels) == 0 {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue(), true
		}
	}
	return 0, false
}

// Labels returns the names of the labels that the series of a metric have, sorted.
func (s Scraped) Labels(name string) []string {
	names := map[string]bool{}
	for _, m := range s[name].GetMetric() {
		for _, l := range m.GetLabel() {
			names[l.GetName()] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
