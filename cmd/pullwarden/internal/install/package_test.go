// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A package's files go only after uninstall was called, which knows whether the unit runs ours, and not where that
// refuses: nothing would run containers. Where no systemd runs, as in an image that is built, the drop-in goes.
func TestPackageIsRemovedAfterUninstall(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../../../deploy/packages/scripts/preremove.sh")
	if err != nil {
		t.Fatal(err)
	}
	const systemd = "/run/systemd/system/x"
	for _, test := range []struct {
		verb   string
		there  []string
		code   int // of uninstall
		called bool
	}{
		{"remove", []string{systemd, DropIn}, 0, true},
		{"remove", []string{systemd, pendingFile}, 0, true},
		{"0", []string{systemd, pendingFile}, 0, true},
		{"upgrade", []string{systemd, pendingFile}, 0, false},
		{"remove", []string{systemd}, 0, true},
		{"remove", []string{systemd, filepath.Dir(DropIn) + "/10-runtime.conf"}, 1, true},
		{"remove", []string{DropIn}, 1, false},
		{"remove", nil, 1, false},
	} {
		root := t.TempDir()
		put := func(path, text string) {
			if err := errors.Join(os.MkdirAll(filepath.Dir(root+path), 0o700), os.WriteFile(root+path, []byte(text), 0o700)); err != nil {
				t.Fatal(err)
			}
		}
		put(Dir+"/"+companion, fmt.Sprintf("#!/bin/sh\necho \"$@\" >%s/called\nexit %d\n", root, test.code))
		for _, path := range test.there {
			put(path, "{}\n")
		}
		var roots []string
		for _, dir := range []string{"/usr/lib", "/etc/systemd", "/run/systemd", "/var/lib"} {
			roots = append(roots, dir, root+dir)
		}
		text := strings.NewReplacer(roots...).Replace(string(script))
		out, err := exec.CommandContext(t.Context(), "sh", "-c", text, "preremove.sh", test.verb).CombinedOutput()
		if (err != nil) != (test.called && test.code != 0) {
			t.Errorf("%s, with %s: %v: %s", test.verb, test.there, err, out)
		}
		called, err := os.ReadFile(root + "/called")
		if err != nil && !errors.Is(err, fs.ErrNotExist) || (string(called) == "uninstall --yes\n") != test.called {
			t.Errorf("%s, with %s: %q, %v", test.verb, test.there, called, err)
		}
		if _, err := os.Stat(root + DropIn); err == nil && !slices.Contains(test.there, systemd) {
			t.Errorf("%s, with %s: the drop-in stays", test.verb, test.there)
		}
	}
}
