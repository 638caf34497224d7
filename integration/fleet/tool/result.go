// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is fleet.Result, as it is written.
type result struct {
	Scenario string         `json:"scenario"`
	Title    string         `json:"title"`
	Arm      string         `json:"arm"`
	Nodes    int            `json:"nodes"`
	Pods     int            `json:"pods"`
	Columns  []string       `json:"columns"`
	Registry [][]int        `json:"registry"`
	Mirror   [][]int        `json:"mirror"`
	Steady   float64        `json:"steady"`
	Peak     float64        `json:"peak"`
	Second   float64        `json:"second"`
	Probes   float64        `json:"probes"`
	Totals   map[string]int `json:"totals"`
}

// requests are the columns of requests; the others say what became of them, and of pods.
var requests = []string{"challenges", "tokens", "checks", "manifests", "blobs", "probes"}

// run reads each result of a directory, and shows it.
func run(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("%s: no results", dir), err)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var arms []result
		if err := json.Unmarshal(data, &arms); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if len(arms) == 0 {
			continue
		}
		addRows(table, arms)
		if err := draw(strings.TrimSuffix(file, ".json")+".svg", arms); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return table.Flush()
}

// addRows adds a scenario to the table.
func addRows(table *tabwriter.Writer, arms []result) {
	first := arms[0]
	_, _ = fmt.Fprintf(table, "%s: %s; %d nodes, %d pods each\n", first.Scenario, first.Title, first.Nodes, first.Pods)
	_, _ = fmt.Fprintln(table, "  \trequests/s\tpeak\tpeak/steady\tin one second\tprobes/s\tstarted\tdelayed\tstale\toutdated\tfailed tries\t429")
	for _, r := range arms {
		t := r.Totals
		_, _ = fmt.Fprintf(table, "  %s\t%.1f\t%.1f\t%s\t%.0f\t%.1f\t%d\t%d\t%d\t%d\t%d\t%d\n", r.Arm, r.Steady, r.Peak, ratio(r.Peak, r.Steady), r.Second, r.Probes,
			t["started"], t["delayed"], t["stale"], t["outdated"], t["failures"], t["refused"])
	}
	_, _ = fmt.Fprintln(table)
}

func ratio(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", a/b)
}

// rates are the means of so many seconds, of the columns with these names together.
func (r *result) rates(series [][]int, over int, names ...string) (means []float64) {
	for i := 0; i+over <= len(series); i += over {
		part := series[i : i+over]
		sum := 0
		for _, counts := range part {
			for c, n := range counts {
				if slices.Contains(names, r.Columns[c]) {
					sum += n
				}
			}
		}
		means = append(means, float64(sum)/float64(len(part)))
	}
	return means
}
