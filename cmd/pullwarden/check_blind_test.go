// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"
)

// A node whose containerd starts without pullwarden, since disabled_plugins names it, is none on which the
// rules hold; nor one on which CRI is switched off, as in the config.toml of Docker's own package.
func TestCheckDisabledPlugins(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"io.containerd.image-policy.v1.pullwarden", "io.containerd.grpc.v1.cri"} {
		dir := write(t, map[string]string{
			"rules/a.toml": "[[rule]]\nimages = ['r.test/**']\naccess = 'Strict'\n",
		})
		file := write(t, map[string]string{
			"config.toml": "version = 3\ndisabled_plugins = ['" + name + "']\n" + section[len("version = 3\n"):] + "config_path = '" + dir + "/rules'\n" + tuned,
		})
		if got := findings(t, file, "--config", filepath.Join(file, "config.toml")); len(got) == 0 {
			t.Errorf("no finding, with disabled_plugins = ['%s']", name)
		}
	}
}

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
