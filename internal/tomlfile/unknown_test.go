// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package tomlfile

import (
	"strings"
	"testing"
)

func TestUnknown(t *testing.T) {
	allowed := []string{"images", "policy", "max_age", "max_stale", "on"}
	for key, near := range map[string]string{
		"polcy": "policy", "image": "images", "max-age": "max_age", "Policy": "policy", "maxstale": "max_stale",
		"max_stael": "max_stale", "x": "", "no": "", "colour": "", "default": "", "": "", strings.Repeat("policy", 11): "",
	} {
		if got := Nearest(key, allowed); got != near {
			t.Errorf("%q: near is %q, want %q", key, got, near)
		}
	}
	if got, want := Unknown("polcy", allowed[:2]), "unknown key (did you mean policy?): allowed are images, policy"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := Unknown("colour", allowed[:1]), "unknown key: allowed is images"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
