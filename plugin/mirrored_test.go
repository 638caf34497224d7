// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/metrics"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// A mirror's word in the place of the registry is counted by its reason, and told by a
// warning that says why the registry did not answer.
func TestMirrorFallbackIsLoud(t *testing.T) {
	m, registry := metrics.New(), prometheus.NewRegistry()
	err := m.Register(registry, metrics.Sources{
		Images:   func(context.Context, ...string) ([]images.Image, error) { return nil, nil },
		Rules:    func() *policy.Rules { return policy.NewRules(policy.Overrides{}, nil) },
		Troubled: func() []health.State { return nil },

		BackgroundPulls: func() int { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []engine.Kind{engine.UsedCached, engine.Pulled} {
		o := engine.Outcome{
			Kind: kind, Reason: engine.ReasonMirrorFallback, Host: "mirror.test",
			Directives: policy.Effective{Directives: policy.Defaults()},
			Attempts:   []resolver.Attempt{{Host: "registry.test", Origin: true, Class: failure.Unavailable, Err: errors.New("503 on purpose")}},
		}
		var written bytes.Buffer
		logger := logrus.New()
		logger.SetOutput(&written)
		logOutcome(log.WithLogger(t.Context(), logrus.NewEntry(logger)), o)
		for _, word := range []string{"level=warning", "mirror_fallback", "registry.test: unavailable: 503 on purpose", "verified_by=mirror.test"} {
			if !strings.Contains(written.String(), word) {
				t.Errorf("%s: the log lacks %q: %s", kind, word, written.String())
			}
		}
		m.Decision(t.Context(), o)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "reason" && label.GetValue() == "mirror_fallback" && metric.GetCounter().GetValue() == 1 {
					counted++
				}
			}
		}
	}
	if counted != 2 {
		t.Errorf("%d outcomes are counted as mirror_fallback, want 2: %v", counted, families)
	}
}
