// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A package's files go only after uninstall was called, where the unit runs ours, or may do so since a run was killed.
func TestPackageIsRemovedAfterUninstall(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../../../deploy/packages/scripts/preremove.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		verb   string
		there  string
		called bool
	}{
		{"remove", DropIn, true},
		{"remove", pendingFile, true},
		{"0", pendingFile, true},
		{"upgrade", pendingFile, false},
		{"remove", "/etc/systemd/system/" + Unit, false},
	} {
		root := t.TempDir()
		for path, text := range map[string]string{
			Dir + "/" + companion:   "#!/bin/sh\necho \"$@\" >" + root + "/called\n",
			"/run/systemd/system/x": "",
			test.there:              "{}\n",
		} {
			if err := errors.Join(os.MkdirAll(filepath.Dir(root+path), 0o700), os.WriteFile(root+path, []byte(text), 0o700)); err != nil {
				t.Fatal(err)
			}
		}
		var roots []string
		for _, dir := range []string{"/usr/lib", "/etc/systemd", "/run/systemd", "/var/lib"} {
			roots = append(roots, dir, root+dir)
		}
		text := strings.NewReplacer(roots...).Replace(string(script))
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", text, "preremove.sh", test.verb).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		called, err := os.ReadFile(root + "/called")
		if err != nil && !errors.Is(err, fs.ErrNotExist) || (string(called) == "uninstall --yes\n") != test.called {
			t.Errorf("%s, with %s: %q, %v", test.verb, test.there, called, err)
		}
	}
}
