// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"

	"github.com/pullwarden/pullwarden/internal/plural"
	"github.com/pullwarden/pullwarden/plugin/api"
	"github.com/pullwarden/pullwarden/plugin/status"
)

const (
	shortDigest = 8
	clearScreen = "\x1b[H\x1b[2J"
)

// table shows a report to people. On a terminal a later one takes the place of the one
// before; elsewhere it follows after an empty line.
func (s *statusScreen) table(r status.Report, now time.Time) error {
	var b bytes.Buffer
	columns := width(s.w)
	writeHealth(&b, &r, columns)
	if s.flags.watch {
		s.writePulls(&b, r.Pulls, now)
	}
	b.WriteByte('\n')
	switch {
	case len(r.Images) == 0:
		b.WriteString(s.flags.noImages() + "\n")
	case s.flags.output == formatWide:
		writeWide(&b, r.Images, now)
	default:
		writeImages(&b, r.Images, now, columns)
	}
	screen := b.String()
	if rows := height(s.w); s.flags.watch && rows > 0 {
		screen = clearScreen + cutLines(screen, columns, rows-1) // one row is the cursor's
	} else if s.shown > 0 {
		screen = "\n" + screen
	}
	_, err := io.WriteString(s.w, screen)
	return err
}

// writeHealth writes one line on health, and a paragraph on each problem and note.
func writeHealth(w io.Writer, r *status.Report, columns int) {
	state := "healthy"
	if !r.Healthy {
		state = "degraded"
	}
	_, _ = fmt.Fprintf(w, "%s: %s of %s, %s in trouble, %s\n", state, plural.Of(r.Rules.Rules, "rule"), plural.Of(r.Rules.Files, "file"),
		plural.Of(len(r.Hosts), "host"), plural.Of(r.StaleImages, "stale image"))
	for _, p := range r.Problems {
		writeParagraph(w, "- ", p.Text, columns)
	}
	if r.BackgroundPulls > 0 {
		writeParagraph(w, "- ", fmt.Sprintf("background pulls: %d, the cached images are used meanwhile", r.BackgroundPulls), columns)
	}
	for _, n := range r.Notes {
		writeParagraph(w, "- not enforced: ", n.Text, columns)
	}
}

func writeParagraph(w io.Writer, lead, text string, columns int) {
	const indent = "    "
	wrapped := wrap(lead+text, columns, indent)
	_, _ = io.WriteString(w, "  "+strings.TrimPrefix(wrapped, indent))
}

// writeImages writes the table for a terminal of that many columns: references lose
// their beginning and hosts their end, where there is no room.
func writeImages(w io.Writer, all []status.Image, now time.Time, columns int) {
	rows := [][]string{{"IMAGE", "SOURCE", "DIGEST", "CHECKED", "BY", "PROOFS", "PINNED"}}
	for i := range all {
		img := &all[i]
		rows = append(rows, cells(
			shortReference(img.Reference), orDash(img.Source()), short(img.Digest), ago(img.VerifiedAt, now), orDash(img.VerifiedBy),
			strconv.Itoa(img.Proofs), yes(img.Pinned),
		))
	}
	fit(rows, columns)
	var b bytes.Buffer
	writeRows(&b, rows)
	line, rest, _ := strings.Cut(b.String(), "\n")
	_, _ = fmt.Fprintln(w, line)
	for i := range all {
		line, rest, _ = strings.Cut(rest, "\n")
		_, _ = fmt.Fprintln(w, line)
		if all[i].Stale() {
			_, _ = fmt.Fprintf(w, "  stale for %s: %s\n", ago(all[i].StaleSince, now), printable(all[i].StaleReason))
		}
	}
}

// writeWide writes the table with everything at its full length.
func writeWide(w io.Writer, all []status.Image, now time.Time) {
	rows := [][]string{{"IMAGE", "SOURCE", "CONTENT", "DIGEST", "CHECKED", "BY", "STALE", "PROOFS", "PINNED"}}
	for i := range all {
		img := &all[i]
		stale := "-"
		if img.Stale() {
			stale = ago(img.StaleSince, now) + " " + img.StaleReason
		}
		rows = append(rows, cells(
			img.Reference, orDash(img.PullSource), orDash(strings.Join(img.ContentSources, ",")), img.Digest,
			ago(img.VerifiedAt, now), orDash(img.VerifiedBy), stale, strconv.Itoa(img.Proofs), yes(img.Pinned),
		))
	}
	writeRows(w, rows)
}

// cells returns a row of what is printable: an archive names the images in it, and containerd keeps the
// names, whatever they tell a terminal.
func cells(texts ...string) []string {
	for i := range texts {
		texts[i] = printable(texts[i])
	}
	return texts
}

func writeRows(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, gap, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush()
}

// pullBytes is how far a pull was at a time.
type pullBytes struct {
	bytes int64
	at    time.Time
}

// writePulls writes a line for each pull, with its rate since the report before, or
// since its begin.
func (s *statusScreen) writePulls(w io.Writer, pulls []api.Pull, now time.Time) {
	last := s.pulls
	s.pulls = map[string]pullBytes{}
	for i := range pulls {
		p := &pulls[i]
		key := p.Reference + p.Began.String()
		before, ok := last[key]
		if !ok {
			before = pullBytes{at: p.Began}
		}
		s.pulls[key] = pullBytes{p.Bytes, now}
		rate := int64(0)
		if took := now.Sub(before.at).Seconds(); took > 0 {
			rate = max(0, int64(float64(p.Bytes-before.bytes)/took))
		}
		lead := "- pulling "
		if p.Background {
			lead += "in the background "
		}
		writeParagraph(w, lead, fmt.Sprintf("%s: %s of %s, %s/s, from %s",
			p.Reference, units.BytesSize(float64(p.Bytes)), units.BytesSize(float64(p.Total)), units.BytesSize(float64(rate)), orDash(strings.Join(p.Hosts, ", "))), width(s.w))
	}
}
