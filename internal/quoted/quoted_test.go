// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package quoted

import (
	"fmt"
	"testing"
)

// Whatever a text quotes is left out, also where the quote has quotes or does not end.
func TestCut(t *testing.T) {
	for text, want := range map[string]string{
		fmt.Sprintf("malformed HTTP status code %q", "a \"secret\"\nof\\"):  `malformed HTTP status code "…"`,
		`invalid port ":secret" after host`:                                 `invalid port "…" after host`,
		`parsing time "\"secret\"" as "2006": cannot parse "secret" as "2"`: `parsing time "…" as "…": cannot parse "…" as "…"`,
		`it ends in "the middle`:                                            `it ends in "…"`,
		`it ends in "`:                                                      `it ends in "…"`,
		"lookup h.test: no such host":                                       "lookup h.test: no such host",
		"":                                                                  "",
	} {
		if got := Cut(text); got != want {
			t.Errorf("%s: got %s", text, got)
		}
	}
}
