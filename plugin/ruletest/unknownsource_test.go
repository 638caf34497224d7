// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package ruletest

import (
	"os"
	"path/filepath"
	"testing"
)

// Of an image of which nothing is known nobody knows that it came from an allowed host: it is not reused, on a
// node (integration/policies, TestImportedImageUnderAllowedSources) and so in a case.
func TestUnknownImageIsFromNoAllowedSource(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"IfDigestChanged", "IfNotPresent", "Never"} {
		file := filepath.Join(t.TempDir(), "a.test.toml")
		for path, text := range map[string]string{
			filepath.Join(filepath.Dir(file), "rules.toml"): "[[rule]]\nimages = ['r.test/**']\npolicy = '" + policy + "'\nallowed_sources = ['r.test']\n",
			file: "rules = ['rules.toml']\n[[case]]\nimage = 'r.test/a:1'\nfailure = 'unreachable'\ncached = 'Unknown'\nexpect = { outcome = 'Failed' }\n",
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
			t.Errorf("%s: %+v", policy, d)
		}
	}
}
