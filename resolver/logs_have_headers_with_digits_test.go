// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"testing"
)

// A registry has a secret behind the name of a known header: net/http parts it at the colon, and
// the log at level debug has both halves, since a name may end with any digits and dots.
func TestLogsHaveNoHeadersThatBeginLikeKnownOnes(t *testing.T) {
	text := repeating(t, "71936402:summer2024xyz", Query{}, written(func(sent string) string {
		return "HTTP/1.1 404 Not Found\r\nAge." + sent
	}))
	wantNothingOf(t, "summer2024", text)
	wantNothingOf(t, "71936402", text)
}
