// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/containerd/log"
)

var (
	scenarioFlag = flag.String("fleet.scenario", "", "the scenario to run with all of its nodes; all = each")
	nodesFlag    = flag.Int("fleet.nodes", 0, "how many nodes it has; 0 = its own number")
	armFlag      = flag.String("fleet.arm", "", "the arm to run; empty = each")
	outFlag      = flag.String("fleet.out", "", "the directory for results")
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = log.SetLevel("panic")
	os.Exit(m.Run())
}

// TestFleet runs the scenario of the command line, and writes its results. Without one it
// does nothing: the other tests run all scenarios with a few nodes.
func TestFleet(t *testing.T) {
	var names []string
	for _, s := range Scenarios() {
		if names = append(names, s.Name); *scenarioFlag != s.Name && *scenarioFlag != "all" {
			continue
		}
		if *nodesFlag > 0 {
			s.Nodes = *nodesFlag
		}
		var results []Result
		for _, arm := range s.Arms {
			if *armFlag != "" && arm.Name != *armFlag {
				continue
			}
			began := time.Now()
			r := Run(t, &s, arm)
			t.Logf("%s, %s: %v: steady %.1f peak %.1f probes %.2f %v", s.Name, arm.Name, time.Since(began).Round(time.Second), r.Steady, r.Peak, r.Probes, r.Totals)
			results = append(results, r)
		}
		data, err := json.Marshal(results)
		if err != nil {
			t.Fatal(err)
		}
		if *outFlag != "" {
			if err := os.WriteFile(filepath.Join(*outFlag, s.Name+".json"), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if *scenarioFlag != "" && *scenarioFlag != "all" && !slices.Contains(names, *scenarioFlag) {
		t.Errorf("no scenario %q: there are %v", *scenarioFlag, names)
	}
}
