// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// folds are line breaks that go on in the same header: net/textproto makes a space of each.
var folds = regexp.MustCompile(`[ \t]*\r?\n[ \t]+`)

// spellings are a text as it is, without the white space around it, which files end with and
// servers trim, and as a header has its lines: each as documents have what is no UTF-8, and in Latin-1.
func spellings(text string) (all []string) {
	trimmed := strings.TrimSpace(text)
	for _, text := range []string{text, trimmed, folds.ReplaceAllString(trimmed, " ")} {
		all = append(all, text, validUTF8(text))
		if !isASCII(text) {
			all = append(all, takenForLatin1(text))
			inLatin1 := latin1(text)
			all = append(all, inLatin1, validUTF8(inLatin1))
		}
	}
	return all
}

func validUTF8(text string) string { return string([]rune(text)) }

// takenForLatin1 is a text in UTF-8 as it is read by who takes it for Latin-1.
func takenForLatin1(text string) string {
	read := make([]byte, 0, 2*len(text))
	for i := range len(text) {
		read = utf8.AppendRune(read, rune(text[i]))
	}
	return string(read)
}

// latin1 is a text in Latin-1, "" if it has other characters.
func latin1(text string) string {
	written := make([]byte, 0, len(text))
	for _, c := range text {
		if c > 0xff {
			return ""
		}
		written = append(written, byte(c))
	}
	return string(written)
}
