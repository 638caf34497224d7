// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "testing"

// Among alternatives the brackets of an IPv6 address need escapes: without them they are a class.
func TestIPv6AmongAlternatives(t *testing.T) {
	g, err := parseImageGlob(`{\[::1\]:5000,\[::2\]:5000}/**`)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"[::1]:5000/x": true, "[::2]:5000/team/app": true, "[::3]:5000/x": false} {
		if got := g.matches(&Image{Repository: name}); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
