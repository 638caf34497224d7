// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
)

const (
	// maxNearHints bounds how many slips are named: a pod may have thousands of
	// annotations.
	maxNearHints = 4
	// maxCandidates bounds how many annotations are compared with the hints' keys.
	maxCandidates = 64
)

var hintNames = slices.Sorted(maps.Keys(hintKeys))

// NearHints names annotations that are no hints, but surely meant to be, such as
// pullwarden/policy: each with the key that was probably meant. There is none where
// hints are ignored.
func (d *Effective) NearHints(annotations map[string]string) (slips []string) {
	if d.Hints == Ignore {
		return nil
	}
	var candidates []string
	for key := range annotations {
		if isCandidate(key) && len(candidates) < maxCandidates {
			candidates = append(candidates, key)
		}
	}
	slices.Sort(candidates)
	for _, key := range candidates {
		if near := tomlfile.Nearest(key, hintNames); near != "" {
			slips = append(slips, fmt.Sprintf("%s (did you mean %s?)", shorten(key), near))
		}
	}
	if more := len(slips) - maxNearHints; more > 0 {
		slips = append(slips[:maxNearHints], fmt.Sprintf("and %d more", more))
	}
	return slips
}

// isCandidate tells quickly which annotations may be slips.
func isCandidate(key string) bool {
	const begin = len("pull")
	return len(key) > begin && strings.EqualFold(key[:begin], HintPrefix[:begin]) && !isHint(key)
}
