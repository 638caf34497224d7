// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// phase is how far a pull had come when the daemon was killed.
type phase int

const (
	beforeCheck phase = iota
	inCheck
	inManifest
	inLayers
	afterAll
	numPhases
)

func (p phase) String() string {
	return [numPhases]string{"before the check", "during the check", "during the manifest", "during layers", "after the decision"}[p]
}

// tally is what was done.
type tally struct {
	began     time.Time
	histories int
	steps     [numKinds]int
	outcomes  map[Policy]map[string]int
	kills     [numPhases]int // in pulls
}

func newTally() *tally {
	t := &tally{began: time.Now(), outcomes: map[Policy]map[string]int{}}
	for p := Always; p <= Never; p++ {
		t.outcomes[p] = map[string]int{}
	}
	return t
}

func (t *tally) killsInPulls() int {
	n := 0
	for _, k := range t.kills {
		n += k
	}
	return n
}

// String is a table.
func (t *tally) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "%d histories in %v\n\nsteps\t\n", t.histories, time.Since(t.began).Round(time.Second))
	for kind, n := range t.steps {
		_, _ = fmt.Fprintf(w, "  %v\t%d\n", Kind(kind), n)
	}
	_, _ = fmt.Fprintf(w, "\noutcomes\t\n")
	for p := Always; p <= Never; p++ {
		var all []string
		for _, outcome := range slices.Sorted(maps.Keys(t.outcomes[p])) {
			all = append(all, fmt.Sprintf("%s %d", outcome, t.outcomes[p][outcome]))
		}
		_, _ = fmt.Fprintf(w, "  %v\t%s\n", p, strings.Join(all, ", "))
	}
	_, _ = fmt.Fprintf(w, "\nkills in pulls\t%d\n", t.killsInPulls())
	for p, n := range t.kills {
		_, _ = fmt.Fprintf(w, "  %v\t%d\n", phase(p), n)
	}
	_ = w.Flush()
	return text.String()
}
