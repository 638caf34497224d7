// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// line is a line of the table. Empty cells are of no meaning there.
type line struct {
	what, stock, ours, ratio, requests, connections, reach string
}

func (l line) cells() []string {
	return []string{l.what, l.stock, l.ours, l.ratio, l.requests, l.connections, l.reach}
}

// compare makes a line of the medians of both sides.
func compare(what, reach string, costs [2]costs) line {
	a, b := costs[stock].median(), costs[ours].median()
	return line{
		what: what, stock: span(a.took), ours: span(b.took), ratio: ratio(a.took, b.took),
		requests:    fmt.Sprintf("%d, %d", a.requests, b.requests),
		connections: fmt.Sprintf("%d, %d", a.connections, b.connections),
		reach:       reach,
	}
}

// table is what is printed at the end.
type table struct {
	header string
	lines  []line
}

var heads = line{"", "stock", "pullwarden", "ratio", "requests", "new connections", "to reach"}

// print writes Markdown, aligned for those who read it as it is.
func (t table) print(w io.Writer) error {
	if len(t.lines) == 0 {
		return nil
	}
	widths := make([]int, len(heads.cells()))
	for _, l := range append([]line{heads}, t.lines...) {
		for i, cell := range l.cells() {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	b.WriteString(t.header + "\n\n")
	write := func(cells []string) {
		for i, cell := range cells {
			fmt.Fprintf(&b, "| %-*s ", widths[i], cell)
		}
		b.WriteString("|\n")
	}
	write(heads.cells())
	for _, width := range widths {
		b.WriteString("| " + strings.Repeat("-", max(width, 3)) + " ")
	}
	b.WriteString("|\n")
	for _, l := range t.lines {
		write(l.cells())
	}
	b.WriteString("\n" + notes)
	_, err := io.WriteString(w, b.String())
	return err
}

const notes = `Medians of runs that take turns. Ratio: stock by pullwarden; above 1 pullwarden is
the better one. Requests (tokens among them) and new connections: stock's, then
pullwarden's, as the registries counted them.
`

// span writes a time for people.
func span(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// ratio writes by how much b is better than a.
func ratio[N ~int | ~int64](a, b N) string {
	r := float64(a) / float64(b)
	if r < 10 {
		return fmt.Sprintf("%.2f×", r)
	}
	return fmt.Sprintf("%.0f×", r)
}
