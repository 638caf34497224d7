// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package tomlfile

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Unknown returns the message for a key that is not one of those allowed. It asks
// whether the nearest of them was meant, if one is near.
func Unknown(key string, allowed []string) string {
	verb := "are"
	if len(allowed) == 1 {
		verb = "is"
	}
	meant := ""
	if near := Nearest(key, allowed); near != "" {
		meant = " (did you mean " + near + "?)"
	}
	return "unknown key" + meant + ": allowed " + verb + " " + strings.Join(allowed, ", ")
}

// maxNear bounds, in bytes, the keys that may be a slip of another one: the
// comparison takes time by the length of both.
const maxNear = 64

// Nearest returns the one of the allowed keys that another one is a slip of, "" for
// none: at most a third of its letters are wrong, and no more than three. Upper case,
// and - for _, are no slips.
func Nearest(key string, allowed []string) (near string) {
	if len(key) > maxNear {
		return ""
	}
	limit := min(len(key)/3, 3) + 1
	for _, candidate := range allowed {
		fold := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
		if d := levenshtein.ComputeDistance(fold(key), fold(candidate)); d < limit {
			near, limit = candidate, d
		}
	}
	return near
}
