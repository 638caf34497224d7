// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rulesync

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Files of others in the directory of the copy are left alone, also where their names look like those
// of files that are being written, and where the copy is somebody else's.
func TestFilesOfOthersAreLeftAlone(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "a.toml"), []byte("[[rule]]\nimages = ['**']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(to, ".50-cluster.toml.before-friday.tmp")
	for _, path := range []string{kept, filepath.Join(to, "50-cluster.toml")} {
		if err := os.WriteFile(path, []byte("# mine\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &Sync{From: from, To: filepath.Join(to, "50-cluster.toml"), Log: io.Discard}
	if err := s.Once(); err == nil {
		t.Error("a file of somebody else is replaced")
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}
