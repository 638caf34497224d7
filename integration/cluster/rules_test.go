// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// documentedValues returns the values that docs/install.md shows.
func documentedValues(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile("(?s)```yaml\n(# values.yaml\n.*?)```").FindSubmatch(page)
	if match == nil {
		t.Fatal("docs/install.md shows no values.yaml")
	}
	path := filepath.Join(t.TempDir(), "values.yaml")
	write(t, path, string(match[1]))
	return path
}

// The rules of values reach a node as they were written, their cases hold there, and the
// next version without a rule takes it away.
func TestRulesOfTheChart(t *testing.T) {
	for _, values := range []string{documentedValues(t), filepath.Join(chart, "ci", "rules-values.yaml")} {
		volume, node := t.TempDir(), t.TempDir()
		var held struct {
			Data map[string]string `json:"data"`
		}
		for _, m := range manifests(t, render(t, "--values", values)) {
			if m.Kind == "ConfigMap" {
				if err := yaml.Unmarshal([]byte(m.text), &held); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, text := range held.Data {
			write(t, filepath.Join(volume, name), text)
		}
		file := filepath.Join(node, "50-cluster.toml")
		sync := func() {
			t.Helper()
			if out, err := exec.Command(built(t, binEnv, "pullwarden"), "sync-rules", volume, file).CombinedOutput(); err != nil {
				t.Fatalf("%v, %s", err, out)
			}
		}
		sync()
		text, err := os.ReadFile(file)
		if err != nil || len(held.Data) != 2 || !strings.HasSuffix(string(text), "\n# 10-team-a.toml\n"+held.Data["10-team-a.toml"]) {
			t.Errorf("%s, %v", text, err)
		}
		for name := range held.Data {
			if err := os.Remove(filepath.Join(volume, name)); err != nil {
				t.Fatal(err)
			}
		}
		write(t, filepath.Join(volume, "10-team-a.toml"), "")
		sync()
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "[[rule]]") {
			t.Errorf("%s, %v", text, err)
		}
	}
}
