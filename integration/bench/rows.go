// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// row is something to measure.
type row struct {
	name  string // selects it
	about string
	// run returns its lines of the table. The error says what did not work;
	// lines that were measured before come with it.
	run func(ctx context.Context, b *bench) ([]line, error)
}

// extra are rows that are measured only by their names.
var extra = []row{
	{"settings", "containerd's own settings for big images", settings},
}

// rows are all that are measured without names, in the table's order.
var rows = []row{
	{"warm", "a check of an unchanged image", warm},
	{"storm", "a hundred pods at once", storm},
	{"boot", "a node that comes back: sixty pods at once", boot},
	{"cold", "pulls of images that are not there", cold},
	{"change", "an image with one other layer", change},
	{"big", "pulls of a big image", big},
	{"fresh", "an image whose last check still counts", fresh},
	{"hang", "a registry that does not answer", hang},
	{"dead", "a dead mirror in front of the registry", dead},
	{"failover", "connections that died without a word", failover},
	{"memory", "memory after a thousand checks", memory},
	{"start", "the time until CRI answers", startUp},
	{"list", "listing a thousand images", list},
}

// choose returns the rows of those names, which have commas between; all for
// none.
func choose(names string) ([]row, error) {
	if names == "" {
		return rows, nil
	}
	var chosen []row
	rows := slices.Concat(rows, extra)
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("there is no row %q: allowed are %s", name, strings.Join(rowNames(rows), ", "))
		}
		chosen = append(chosen, rows[i])
	}
	return chosen, nil
}

func rowNames(rows []row) []string {
	names := make([]string, 0, len(rows))
	for _, r := range rows {
		names = append(names, r.name)
	}
	return names
}
