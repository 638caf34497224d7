// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"iter"
	"strings"
)

// maxIndexed bounds what strings.Index looks for of a value, in bytes: it compares hashes of longer
// ones, and whoever chooses value and text has these be the same.
const maxIndexed = 32

// occurrences returns where a value is in a text, from and to; such as overlap are one. rest says
// that there is more of the text, so that the value may begin at its end. Whoever chose
// value and text, that takes no longer than to read both: the text is searched as Knuth, Morris
// and Pratt do.
func occurrences(text, value string, rest bool) iter.Seq[[2]int] {
	return func(yield func([2]int) bool) {
		if from, may := mayBegin(text, value, rest); may {
			matches(text, value, from, rest, yield)
		}
	}
}

// mayBegin returns where a value begins in a text at the earliest, if it may.
func mayBegin(text, value string, rest bool) (from int, may bool) {
	if len(value) > len(text) && !rest {
		return 0, false
	}
	if from = strings.Index(text, value[:min(len(value), maxIndexed)]); from >= 0 { // quicker
		return from, true
	}
	return max(0, len(text)-len(value)+1), rest
}

// matches is occurrences in the rest of a text.
func matches(text, value string, from int, rest bool, yield func([2]int) bool) {
	borders := bordersOf(value[:min(len(value), len(text)-from)])
	matched := 0       // bytes of the value that end here
	begin, end := 0, 0 // of those that overlap so far; an end of 0 = there are none
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
		if end > 0 && start > end {
			if !yield([2]int{begin, end}) {
				return
			}
			end = 0
		}
		if end == 0 {
			begin = start
		}
		end = i + 1
	}
	if end > 0 && !yield([2]int{begin, end}) {
		return
	}
	if rest && matched > 0 && matched < len(value) {
		yield([2]int{len(text) - matched, len(text)})
	}
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
