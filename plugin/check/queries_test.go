// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is found in a hosts.toml is told without the queries and fragments of its URLs, as the daemon
// tells it.
func TestFindingsTellNoQueries(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.test")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"[host.'https://m.test?sig=summer2024xyz']\ncapabilities = ['fetch']\n",
		"[host.'http://m.test/#summer2024xyz']\nskip_verify = true\n",
		"[host.'http://m.test?sig=summer2024xyz']\nfoo = 1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		report := Paths([]string{filepath.Dir(dir)}, "")
		if len(report.Findings) == 0 {
			t.Errorf("nothing is found in %s", text)
		}
		for _, f := range report.Findings {
			if strings.Contains(f.Key+f.Text, "summer2024xyz") {
				t.Errorf("%s: %s: %s", f.ID, f.Key, f.Text)
			}
		}
	}
}
