// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import "strings"

// isWords reports whether a value is made of short words in lower case, as names of repositories
// are. Nothing that is drawn or computed looks like that.
func isWords(value string) bool {
	for word := range strings.FieldsFuncSeq(value, func(c rune) bool { return strings.ContainsRune("-._/", c) }) {
		if len(word) >= minQuery || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
			return false
		}
	}
	return true
}
