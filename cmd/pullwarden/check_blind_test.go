// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// A rule file stays one, with its mistakes, if a slip gives it a key that a config.toml has, too.
func TestCheckRuleFileWithAVersion(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"version = 1", "root = '/'", "imports = []"} {
		dir := write(t, map[string]string{
			"pullwarden.d/a.toml": key + "\n[[rule]]\nimages = ['r.test/**']\npolcy = 'Never'\n",
			"pullwarden.d/b.toml": "[[rule]]\nimages = ['r.test/b/**']\n",
		})
		errors := 0
		for _, f := range findings(t, dir, "pullwarden.d") {
			if f.Severity == "error" {
				errors++
			}
		}
		if errors == 0 {
			t.Errorf("the daemon refuses the rules, and check finds no error: %s", key)
		}
	}
}
