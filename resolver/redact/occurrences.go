// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import "strings"

// maxIndexed bounds the values, in bytes, that strings.Index looks for: it compares hashes of
// longer ones, and whoever chooses value and text has these be the same.
const maxIndexed = 32

// occurrences returns where a value is in a text, from and to; such as overlap are one. rest says
// that there is more of the text, so that the value may begin at its end. Whoever chose
// value and text, that takes no longer than to read both: the text is searched as Knuth, Morris
// and Pratt do.
func occurrences(text, value string, rest bool) (found [][2]int) {
	from := 0
	switch {
	case len(value) > len(text) && !rest:
		return nil
	case len(value) <= maxIndexed: // quicker
		if from = strings.Index(text, value); from < 0 && !rest {
			return nil
		}
		if from < 0 {
			from = max(0, len(text)-len(value)+1)
		}
	}
	borders := bordersOf(value[:min(len(value), len(text)-from)])
	matched := 0 // bytes of the value that end here
	for i := from; i < len(text); i++ {
		for matched > 0 && (matched == len(borders) || text[i] != value[matched]) {
			matched = borders[matched-1]
		}
		if text[i] == value[matched] {
			matched++
		}
		if matched < len(value) {
			continue
		}
		start := i + 1 - matched
		if last := len(found) - 1; last >= 0 && start <= found[last][1] {
			found[last][1] = i + 1
		} else {
			found = append(found, [2]int{start, i + 1})
		}
	}
	if rest && matched > 0 && matched < len(value) {
		found = append(found, [2]int{len(text) - matched, len(text)})
	}
	return found
}

// bordersOf returns, for each beginning of a value, how long the longest one is with which that
// ends as well, shorter than itself.
func bordersOf(value string) []int {
	borders := make([]int, len(value))
	for i, matched := 1, 0; i < len(value); i++ {
		for matched > 0 && value[i] != value[matched] {
			matched = borders[matched-1]
		}
		if value[i] == value[matched] {
			matched++
		}
		borders[i] = matched
	}
	return borders
}
