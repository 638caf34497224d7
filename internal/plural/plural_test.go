// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plural

import "testing"

func TestPlural(t *testing.T) {
	for n, want := range map[int]string{0: "0 files are", 1: "1 file is", 2: "2 files are"} {
		if got := Do(n, "file", "is", "are"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
