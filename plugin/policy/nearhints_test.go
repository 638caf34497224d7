// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNearHints(t *testing.T) {
	effective := Effective{Directives: Defaults()}
	for key, want := range map[string]string{
		"pullwarden/policy":         "pullwarden.io/policy",
		"pullwarden.io.policy":      "pullwarden.io/policy",
		"pullwarden.io_max-age":     "pullwarden.io/max-age",
		"Pullwardn.io/max_stale":    "pullwarden.io/max-stale",
		"pullwarden.com/on-invalid": "pullwarden.io/on-invalid",
		"pullwarden.io/polcy":       "", // an error of its own
		"pullwarden.io/policy":      "",
		"pull.example.com/policy":   "",
		"pullwarden-team/owner":     "",
		"pull":                      "",
		"":                          "",
	} {
		var expect []string
		if want != "" {
			expect = []string{key + " (did you mean " + want + "?)"}
		}
		if diff := cmp.Diff(expect, effective.NearHints(map[string]string{key: "x"})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", key, diff)
		}
	}
}

// However many annotations there are, few are named, none can break a line, and none
// where hints are ignored.
func TestNearHintsAreBounded(t *testing.T) {
	effective := Effective{Directives: Defaults()}
	annotations := map[string]string{}
	for i := range 10_000 {
		annotations[fmt.Sprintf("pullwarden\n/policy%d", i%100)+strings.Repeat(" ", i/100)] = "x"
	}
	got := effective.NearHints(annotations)
	if len(got) > maxNearHints+1 || strings.Contains(strings.Join(got, ""), "\n") {
		t.Errorf("got %d: %q", len(got), got)
	}
	effective.Hints = Ignore
	if got := effective.NearHints(map[string]string{"pullwarden/policy": ""}); got != nil {
		t.Errorf("got %q", got)
	}
}

func BenchmarkNearHints(b *testing.B) {
	effective := Effective{Directives: Defaults()}
	annotations := map[string]string{}
	for i := range 10_000 {
		annotations[fmt.Sprintf("pullwarden/policy-%d", i)] = "x"
	}
	for b.Loop() {
		effective.NearHints(annotations)
	}
}
