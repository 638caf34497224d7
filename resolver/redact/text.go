// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// oneLine replaces line breaks and what cannot be printed by single spaces.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// limit cuts a text behind a whole character, with a mark where it was cut.
func limit(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes] + "…"
}

// Quote quotes what a registry says, unless it is too long.
func Quote(text string) string {
	if len(text) > maxReason {
		return fmt.Sprintf("of %d bytes", len(text))
	}
	return strconv.Quote(text)
}
