// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package ruletest

import (
	"os"
	"path/filepath"
	"testing"
)

// An image of which nothing is known was never checked: under max_stale it is no fallback, on a node
// (integration/policies, TestImportedImageUnderMaxStale) and so in a case.
func TestUnknownImageWasNeverChecked(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.test.toml")
	for path, text := range map[string]string{
		filepath.Join(filepath.Dir(file), "rules.toml"): "[[rule]]\nimages = ['r.test/**']\npolicy = 'IfDigestChanged'\nmax_stale = '24h'\n",
		file: "rules = ['rules.toml']\n[[case]]\nimage = 'r.test/a:1'\nfailure = 'unreachable'\ncached = 'Unknown'\nexpect = { outcome = 'Failed', reason = 'max_stale' }\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	results, err := Run(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range results[0].Differences {
		t.Errorf("%+v", d)
	}
}
