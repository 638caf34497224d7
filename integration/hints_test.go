// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import "testing"

// TestHints is the table of what a pod may say, in the three modes. The policy
// in force without a hint is IfDigestChanged, and max_age 1h.
func TestHints(t *testing.T) {
	t.Parallel()
	const (
		checked = "Unchanged"
		fresh   = "Fresh"
		present = "Present"
		bad     = "Failed"
	)
	tests := []struct {
		hint           string
		value          string
		allow, tighten string // what comes out; Ignore always gives fresh
		words          []string
	}{
		{"policy", "Always", fresh, fresh, nil},
		{"policy", "IfDigestChanged", fresh, fresh, nil},
		{"policy", "IfNewerNotPresent", fresh, fresh, nil},
		{"policy", "IfNotPresent", present, bad, []string{"IfNotPresent", "IfDigestChanged"}},
		{"policy", "Never", present, bad, []string{"Never", "IfDigestChanged"}},
		{"policy", "always", bad, bad, []string{"always", "Always", "IfDigestChanged", "IfNotPresent", "Never"}},
		{"max-age", "0s", checked, checked, nil},
		{"max-age", "30m", fresh, fresh, nil},
		{"max-age", "2h", fresh, bad, []string{"2h", "1h"}},
		{"max-age", "soon", bad, bad, []string{"soon"}},
		{"max-age", "-1s", bad, bad, []string{"-1s"}},
		{"max-stale", "1h", fresh, fresh, nil},
		{"verify-timeout", "1m", fresh, bad, []string{"1m", "5s"}},
		{"verify-timeout", "10ms", bad, bad, []string{"10ms"}},
		{"verify-timeout", "3m", bad, bad, []string{"3m"}},
		{"resolve-from", "Origin", fresh, fresh, nil},
		{"resolve-from", "Moon", bad, bad, []string{"Moon", "Origin", "Mirrors"}},
		{"on-unreachable", "Fail", fresh, fresh, nil},
		{"on-not-found", "UseCached", fresh, fresh, nil},
		{"on-unauthorized", "UseCached", bad, bad, []string{"UseCached", "Fail"}},
		{"on-forbidden", "UseCached", bad, bad, []string{"UseCached", "Fail"}},
		{"on-invalid", "UseCached", bad, bad, []string{"UseCached", "Fail"}},
		{"on-invalid", "Fail", fresh, fresh, nil},
		{"access", "Any", bad, bad, []string{"max-age", "policy"}},
		{"polcy", "Always", bad, bad, []string{"policy"}},
	}
	for _, mode := range []string{"Allow", "Tighten", "Ignore"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, section(`default_policy = "IfDigestChanged"`, `max_age = "1h"`, `hints = "`+mode+`"`))
			n.push("app:1", image(1))
			ref := named("app:1")
			n.mustPull(ref)
			for _, tt := range tests {
				t.Run(tt.hint+"="+tt.value, func(t *testing.T) {
					outcome := map[string]string{"Allow": tt.allow, "Tighten": tt.tighten, "Ignore": fresh}[mode]
					eventually(t, "the check is recorded", func() bool { return n.labels(ref)["verified-at"] != "" })
					mark := n.mark()
					_, err := n.pull(ref, hint(tt.hint, tt.value))
					want(t, "outcome", n.decision(mark, ref).outcome, outcome)
					want(t, "pull fails", err != nil, outcome == bad)
					if err != nil {
						wantWords(t, err, append([]string{"pullwarden.io/" + tt.hint, tt.value}, tt.words...)...)
					}
				})
			}
		})
	}
}

// TestOtherAnnotations holds that only annotations under the prefix count.
func TestOtherAnnotations(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.push("app:1", image(1))
	n.mustPull(named("app:1"), annotations("policy", "Sometimes", "example.com/pullwarden.io", "x", "pullwarden.io", "y"))
}

// TestNeverCannotBeLeft holds that a hint under Tighten leaves Never alone.
func TestNeverCannotBeLeft(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(`default_policy = "Never"`, `hints = "Tighten"`))
	n.push("app:1", image(1))
	for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent"} {
		_ = n.mustFail(named("app:1"), []string{"pullwarden.io/policy", policy, "Never"}, hint("policy", policy))
	}
	want(t, "requests", n.requests(), "")
}
