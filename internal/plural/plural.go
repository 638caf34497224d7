// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plural counts things in messages for people.
package plural

import "strconv"

// Of returns "1 file" or "2 files", for nouns whose plural ends in s.
func Of(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Do is Of with a verb that agrees: "1 file is" or "2 files are".
func Do(n int, noun, one, many string) string {
	if n == 1 {
		return Of(n, noun) + " " + one
	}
	return Of(n, noun) + " " + many
}
