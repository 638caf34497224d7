// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package ruletest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// differences runs one case of r.test/a:1 against one rule for it, and returns what is not as expected.
func differences(t *testing.T, rule, test string) []Difference {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"rules.toml":  "[[rule]]\nimages = ['r.test/**']\n" + rule,
		"a.test.toml": "rules = ['rules.toml']\n[[case]]\nimage = 'r.test/a:1'\nfailure = 'unreachable'\n" + test,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	results, err := Run(filepath.Join(dir, "a.test.toml"))
	if err != nil {
		t.Fatal(err)
	}
	return results[0].Differences
}

// An image of which nothing is known was never checked: under max_stale it is no fallback, on a node
// (integration/policies, TestImportedImageUnderMaxStale) and so in a case.
func TestUnknownImageWasNeverChecked(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"policy = 'IfDigestChanged'\nmax_stale = '24h'\n": "{ outcome = 'Failed', reason = 'max_stale' }",
		"policy = 'IfDigestChanged'\n":                    "{ outcome = 'UsedCached', reason = 'unreachable' }",
	} {
		for _, d := range differences(t, rule, "cached = 'Unknown'\nexpect = "+want+"\n") {
			t.Errorf("%s%+v", rule, d)
		}
	}
}

// Of an image of which nothing is known nobody knows that it came from an allowed host: it is not reused, on a
// node (integration/policies, TestImportedImageUnderAllowedSources) and so in a case.
func TestUnknownImageIsFromNoAllowedSource(t *testing.T) {
	t.Parallel()
	for policy, reason := range map[string]string{"IfDigestChanged": "unreachable", "IfNotPresent": "unreachable", "Never": "absent"} {
		for _, access := range []string{"Verified", "Any"} {
			rule := "policy = '" + policy + "'\nallowed_sources = ['*']\naccess = '" + access + "'\n"
			for _, d := range differences(t, rule, "cached = 'Unknown'\nexpect = { outcome = 'Failed', reason = '"+reason+"' }\n") {
				t.Errorf("%s%+v", rule, d)
			}
		}
	}
}

// A pod whose hint is refused fails, whatever the registry does: a case that expects the hint's error and
// another outcome does not hold.
func TestOutcomeBesideAnError(t *testing.T) {
	t.Parallel()
	const rule, hint = "policy = 'IfDigestChanged'\nhints = 'Tighten'\n", "hints = { policy = 'Never' }\n"
	got := differences(t, rule, hint+"expect = { error = 'tighten', outcome = 'UsedCached', reason = 'unreachable' }\n")
	want := []Difference{{Key: "outcome", Want: "UsedCached", Got: "Failed"}, {Key: "reason", Want: "unreachable", Got: "bad_hint"}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := differences(t, rule, hint+"expect = { error = 'tighten', outcome = 'Failed', reason = 'bad_hint' }\n"); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}
