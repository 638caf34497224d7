// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package ruletest

import (
	"os"
	"path/filepath"
	"testing"
)

// A pod whose hint is refused fails, whatever the registry does: a case that expects the hint's error and
// another outcome does not hold.
func TestOutcomeBesideAnError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.test.toml")
	for path, text := range map[string]string{
		filepath.Join(filepath.Dir(file), "rules.toml"): "[[rule]]\nimages = ['r.test/**']\npolicy = 'IfDigestChanged'\nhints = 'Tighten'\n",
		file: "rules = ['rules.toml']\n[[case]]\nimage = 'r.test/a:1'\nhints = { policy = 'Never' }\nfailure = 'unreachable'\nexpect = { error = 'tighten', outcome = 'UsedCached', reason = 'unreachable' }\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	results, err := Run(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(results[0].Differences) == 0 {
		t.Errorf("the pod fails with bad_hint, and the case holds that expects UsedCached")
	}
}
