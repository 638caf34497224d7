// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package labels

import (
	"maps"
	"testing"
)

func TestOverlay(t *testing.T) {
	below, above := map[string]string{"a": "1", "b": "1"}, map[string]string{"b": "2", "c": ""}
	got := Overlay(below, above)
	if want := map[string]string{"a": "1", "b": "2", "c": ""}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if len(below) != 2 || below["b"] != "1" || len(above) != 2 {
		t.Errorf("an argument was changed: %v, %v", below, above)
	}
	if got := Overlay(below, nil); !maps.Equal(got, below) {
		t.Errorf("nothing over %v is %v", below, got)
	}
	empty := Overlay(nil, nil)
	if empty == nil || len(empty) != 0 {
		t.Errorf("nothing over nothing is %v", empty)
	}
	empty["a"] = "1" // it is a map of its own
}

func TestPresent(t *testing.T) {
	m := map[string]string{"a": "1", "b": ""}
	got := Present(m)
	if want := map[string]string{"a": "1"}; !maps.Equal(got, want) || !maps.Equal(m, want) {
		t.Errorf("got %v and left %v, want %v", got, m, want)
	}
	if got := Present(nil); len(got) != 0 {
		t.Errorf("nil has %v", got)
	}
}
