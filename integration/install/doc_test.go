// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install holds pullwarden install and uninstall, and the packages, against the real
// thing: a Debian that systemd-nspawn boots, with its systemd, its dpkg and a stock
// containerd. rpm installs into a root of its own.
//
// make test-install makes what it needs, and runs it.
package install

import (
	"os"
	"path/filepath"
	"testing"
)

// env names the folder that make test-install fills: debian, a tree with Debian's own
// containerd; stock, of the minor of this project; old and new, two releases.
const env = "PULLWARDEN_INSTALL"

// The versions of the releases, as the daemon tells them.
const (
	oldVersion = "+pullwarden.v0.0.1"
	newVersion = "+pullwarden.v0.0.2"
)

const (
	dropIn     = "/etc/systemd/system/containerd.service.d/50-pullwarden.conf"
	pullwarden = "/usr/lib/pullwarden/pullwarden"
)

// made returns the path of something in that folder.
func made(t *testing.T, pattern ...string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(append([]string{os.Getenv(env)}, pattern...)...))
	if err != nil || len(found) != 1 || os.Getenv(env) == "" {
		t.Fatalf("%s=%q has no single %v (%v): make it, and run this test, with: make test-install", env, os.Getenv(env), pattern, err)
	}
	return found[0]
}
