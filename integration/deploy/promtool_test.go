// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"os/exec"
	"testing"
)

// TestRules has promtool check the rules, and hold them, with their own times, against the
// histories of metrics in testdata.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", rulesFile},
		{"test", "rules", "testdata/alerts.yaml"},
	} {
		out, err := exec.CommandContext(t.Context(), binary(t, promtoolEnv), args...).CombinedOutput()
		if err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}
