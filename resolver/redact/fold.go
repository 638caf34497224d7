// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// fold makes upper and lower case the same, and leaves each byte of other texts in its place:
// some hosts and proxies change the case of what they repeat. A plus is a space, which it is in
// forms.
func fold(text string) string {
	text = strings.ReplaceAll(text, "+", " ")
	if isASCII(text) {
		return strings.ToUpper(text) // the same, quicker
	}
	folded := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		if c == utf8.RuneError && size == 1 { // not UTF-8
			folded = append(folded, text[i])
		} else {
			folded = utf8.AppendRune(folded, foldRune(c, size))
		}
		i += size
	}
	return string(folded)
}

// foldRune returns the first of the characters that differ in case only, and take as many
// bytes.
func foldRune(c rune, size int) rune {
	first := c
	for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
		if utf8.RuneLen(other) == size {
			first = min(first, other)
		}
	}
	return first
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
