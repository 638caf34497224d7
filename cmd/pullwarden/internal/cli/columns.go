// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	gap      = 2 // columns between two cells
	ellipsis = "…"
)

// flexible are the cells that may be shortened, by their place, with the room that
// each keeps at least. The rest have a bounded length.
var flexible = []struct {
	place, least int
	keepEnd      bool // else the beginning
}{{1, 8, false}, {4, 8, false}, {0, 16, true}}

// fit shortens cells until the rows have at most so many columns.
func fit(rows [][]string, columns int) {
	total := -gap
	longest := make([]int, len(rows[0]))
	for place := range rows[0] {
		for _, row := range rows {
			longest[place] = max(longest[place], utf8.RuneCountInString(row[place]))
		}
		total += longest[place] + gap
	}
	for total > columns {
		// The longest one gives first, as far as to the next.
		widest := -1
		for i, f := range flexible {
			if longest[f.place] > f.least && (widest < 0 || longest[f.place]-f.least > longest[flexible[widest].place]-flexible[widest].least) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		longest[flexible[widest].place]--
		total--
	}
	for _, f := range flexible {
		for _, row := range rows {
			row[f.place] = shorten(row[f.place], longest[f.place], f.keepEnd)
		}
	}
}

// shorten cuts a text to that many columns.
func shorten(text string, columns int, keepEnd bool) string {
	runes := []rune(text)
	switch {
	case len(runes) <= columns:
		return text
	case keepEnd:
		return ellipsis + string(runes[len(runes)-columns+1:])
	}
	return string(runes[:columns-1]) + ellipsis
}

// ago returns how long ago that was, in one unit; "-" for nobody knows.
func ago(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	const day = 24 * time.Hour
	switch d := max(0, now.Sub(at)); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 2*day:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d/day))
	}
}

// short returns the beginning of a digest, without its algorithm.
func short(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex[:min(len(hex), shortDigest)]
}

// shortReference returns a reference whose digest, if it has one, is a short one.
func shortReference(reference string) string {
	repository, digest, ok := strings.Cut(reference, "@")
	if !ok {
		return reference
	}
	return repository + "@" + short(digest)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "-"
}
