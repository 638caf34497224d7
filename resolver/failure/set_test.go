// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import "testing"

// Each class has a place of its own in a set.
func TestSet(t *testing.T) {
	if s := SetOf(); !s.Empty() || s != SetOf(None) || s != SetOf("nonsense") {
		t.Errorf("the empty set is %b", s)
	}
	if SetOf(All()...).Has(None) {
		t.Error("None is in a set")
	}
	for _, c := range All() {
		s := SetOf(c)
		if s.Empty() || s != SetOf(c, c, None) {
			t.Errorf("the set of %s is %b", c, s)
		}
		for _, other := range All() {
			if s.Has(other) != (c == other) {
				t.Errorf("the set of %s has %s: %v", c, other, s.Has(other))
			}
		}
	}
	if SetOf(NotFound, Invalid) != SetOf(Invalid, NotFound) || SetOf(All()...) == SetOf(All()[1:]...) {
		t.Error("sets do not compare by what is in them")
	}
}
