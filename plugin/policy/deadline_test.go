// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"
	"time"
)

// No bound is the longest wait there is, and no hint shortens it under Tighten.
func TestDeadlineWithoutBound(t *testing.T) {
	none := Deadline{}
	if _, bounded := none.Bound(); bounded || none.String() != "none" {
		t.Errorf("%+v is %s", none, none)
	}
	if tenth := DeadlineAfter(10 * time.Second); none.before(tenth) || !tenth.before(none) || tenth.String() != "10s" {
		t.Errorf("%s against %s", none, tenth)
	}
	rules := NewRules(Overrides{}, parseRules(t, "[[rule]]\nimages = ['**']\nhints = 'Tighten'\n"))
	_, err := rules.For(Subject{Image: Image{Repository: "a.test/a"}, Annotations: map[string]string{HintPrefix + "pull-deadline": "10s"}})
	const want = `annotation pullwarden.io/pull-deadline: "10s": without the hint it is none (default), which a hint may only tighten: allowed is none: leave the hint out`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
