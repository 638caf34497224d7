// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The removal of a package asks pullwarden uninstall first, which refuses where the unit runs its binary by
// another file than pullwarden's drop-in: nothing would run containers.
func TestRemovalOfThePackageAsksFirst(t *testing.T) {
	root := t.TempDir()
	put := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // programs
			t.Fatal(err)
		}
	}
	put("/run/systemd/system/.there", "")
	put("/etc/systemd/system/containerd.service.d/10-runtime.conf", "[Service]\nExecStart=\nExecStart=/usr/lib/pullwarden/containerd\n")
	put("/usr/lib/pullwarden/pullwarden", "#!/bin/sh\necho asked \"$@\"\nexit 1\n")
	script, err := os.ReadFile("packages/scripts/preremove.sh")
	if err != nil {
		t.Fatal(err)
	}
	text := string(script)
	for _, dir := range []string{"/etc/systemd", "/var/lib/pullwarden", "/run/systemd", "/usr/lib/pullwarden"} {
		text = strings.ReplaceAll(text, dir, root+dir)
	}
	put("preremove.sh", text)
	out, err := exec.Command(filepath.Join(root, "preremove.sh"), "remove").CombinedOutput() //nolint:gosec // of this test
	if err == nil {
		t.Errorf("the files go, with the containerd that the unit runs: %s", out)
	}
}
