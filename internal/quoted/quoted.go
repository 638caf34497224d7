// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quoted leaves out of texts what they quote. Go's libraries quote what a host has sent
// where that makes no sense, and a part of it as often as the whole: the beginning of a password
// of which they take the rest for something else. Nobody finds that by looking for the password.
package quoted

import (
	"strconv"
	"strings"
)

const cut = `"…"` // what is quoted

// Cut leaves out what is quoted as Go does. A quote that does not end has the rest of its line:
// what Go quotes has no line break, and the stack of a panic stays.
func Cut(text string) string {
	var b strings.Builder
	for {
		before, _, quotes := strings.Cut(text, `"`)
		b.WriteString(before)
		if !quotes {
			return b.String()
		}
		b.WriteString(cut)
		text = text[len(before):]
		prefix, err := strconv.QuotedPrefix(text)
		end := len(prefix)
		if err != nil {
			end = strings.IndexByte(text, '\n')
		}
		if end < 0 {
			return b.String()
		}
		text = text[end:]
	}
}
