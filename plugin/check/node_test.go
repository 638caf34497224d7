// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// In the default config_path, too, files that the daemon cannot read are found: a link that leads nowhere is
// no directory that need not be there.
func TestUnreadableInTheDefaultDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "10.toml"), []byte("[[rule]]\nimages = ['**']\n"), 0o600),
		os.Symlink("/nowhere/20.toml", filepath.Join(dir, "20.toml")),
		syscall.Mkfifo(filepath.Join(dir, "30.toml"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ruleDir := func(path string) []Finding {
		c := &checker{}
		found := &configuration{documents: []*document{{checker: c, file: "config.toml"}}}
		found.section.ConfigPath = path
		c.ruleDir(found)
		return c.Findings
	}
	got := ruleDir(dir)
	if len(got) != 1 || got[0].ID != Unreadable || !strings.Contains(got[0].Text, "20.toml") || !strings.Contains(got[0].Text, "30.toml") {
		t.Errorf("two rule files cannot be read: %+v", got)
	}
	if got := ruleDir(filepath.Join(dir, "none")); len(got) != 0 {
		t.Errorf("the directory need not be there: %+v", got)
	}
}

// Without a config.toml that anybody has named containerd starts with its defaults.
func TestNodeWithoutConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.toml")
	for named, want := range map[bool]ID{false: NotEnabled, true: Unreadable} {
		var ids []ID
		report := Node(file, named)
		for _, f := range report.Findings {
			if f.File == file { // and not one of this machine
				ids = append(ids, f.ID)
			}
		}
		if len(ids) != 1 || ids[0] != want {
			t.Errorf("named %t: %q, want %s", named, ids, want)
		}
	}
}
