// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deploy holds the files of deploy/ against the real thing: a Prometheus scrapes
// the built daemon while things fail, every query of the dashboard has an answer, and every
// alert fires and ends.
//
// The module in tool pins Prometheus and promtool. make test-deploy builds them, without
// their service discoveries, and runs this test.
package deploy

import (
	"os"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// The environment variables that name what make test-deploy builds.
const (
	prometheusEnv = "PULLWARDEN_PROMETHEUS"
	promtoolEnv   = "PULLWARDEN_PROMTOOL"
)

const (
	rulesFile     = "../../deploy/prometheus/pullwarden.rules.yaml"
	dashboardFile = "../../deploy/grafana/pullwarden.json"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// binary returns the path in an environment variable, and ends the test where it
// names nothing.
func binary(t *testing.T, env string) string {
	t.Helper()
	path := os.Getenv(env)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s=%q: %v\nbuild what it names, and run this test, with: make test-deploy", env, path, err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// patience is enough for a Prometheus and a daemon with the race detector on a busy
// machine.
const patience = 3 * time.Minute

// until calls f each second until it says that nothing is missing any more.
func until(t *testing.T, f func() (missing string)) {
	t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		missing := f()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", patience, missing)
		}
	}
}
