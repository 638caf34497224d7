// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// deb copies a release's package to the host.
func (h *host) deb(release string) string {
	h.t.Helper()
	h.copy(made(h.t, release, "pullwarden-2.4_*_amd64.deb"), "/root/"+release+".deb")
	return "/root/" + release + ".deb"
}

// A package brings files and changes nothing until pullwarden install is called: at first,
// after an upgrade, and after a downgrade. Its removal gives the node its own containerd
// back, under a container that runs on.
func TestDebOnNode(t *testing.T) {
	h := boot(t, nil)
	before := h.files()
	older, newer := h.deb("old"), h.deb("new")
	pid := h.container()
	program, version := stockProgram, "v2.4.2"
	for _, step := range []struct{ deb, version string }{{older, oldVersion}, {newer, newVersion}, {older, oldVersion}} {
		h.must("dpkg", "--install", step.deb)
		if got := h.serves(); !strings.HasSuffix(got, version) {
			t.Errorf("the package alone changes %s, which ran %s, to %s", program, version, got)
		}
		h.must("pullwarden", "install", "--yes")
		program, version = ourProgram, step.version
		h.expect(version, program)
		if outcome, _ := h.outcome("pullwarden", "install", "--yes"); outcome != "nothing_to_do" {
			t.Errorf("the same again: %s", outcome)
		}
	}
	other := h.unpack("new")
	if outcome, refusals := h.outcome(other+"/pullwarden", "install", "--yes"); outcome != "refused" || len(refusals) != 1 || refusals[0] != "package" {
		t.Errorf("over the files of a package: %s %v", outcome, refusals)
	}
	h.must("dpkg", "--remove", "pullwarden-2.4")
	h.must("dpkg", "--purge", "pullwarden-2.4")
	h.expect("v2.4.2", stockProgram)
	if now := h.containerPID(); now != pid {
		t.Errorf("the container is process %s, not %s", now, pid)
	}
	if diff := cmp.Diff(before, h.files()); diff != "" {
		t.Error(diff)
	}
}

// An upgrade whose daemon does not come up goes back to the binary that ran, of which the
// package has left no file.
func TestBadDebOnNode(t *testing.T) {
	h := boot(t, nil)
	h.must("dpkg", "--install", h.deb("old"))
	h.must("pullwarden", "install", "--yes")
	exits := h.broken("exits", "echo last words >&2; exit 3")
	h.must("sh", "-c", "cp "+exits+"/containerd /usr/lib/pullwarden/.new && mv /usr/lib/pullwarden/.new /usr/lib/pullwarden/containerd") // as dpkg does
	h.fails([]string{"Rolled back", "last words"}, "pullwarden", "install", "--yes", "--timeout", "5m")
	h.expect(oldVersion, ourProgram)
	h.must("dpkg", "--verify", "pullwarden-2.4")
	// A removal stops where the node would be left without a containerd.
	h.must("mv", "/usr/bin/containerd", "/usr/bin/containerd.away")
	if out, code := h.run("dpkg", "--remove", "pullwarden-2.4"); code == 0 {
		t.Errorf("the package is gone, with the last containerd of the node:\n%s", out)
	}
	h.expect(oldVersion, ourProgram)
	h.must("mv", "/usr/bin/containerd.away", "/usr/bin/containerd")
	h.must("dpkg", "--remove", "pullwarden-2.4")
	h.expect("v2.4.2", stockProgram)
}

// Packages of two minors exclude each other, and both install into a tree that no systemd
// runs.
func TestDebInTree(t *testing.T) {
	root := overlay(t, made(t, "debian"))
	h := &host{t: t, root: root}
	older, newer := h.deb("old"), h.deb("new")
	dpkg := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "dpkg", append([]string{"--root=" + root}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("dpkg %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	before := h.files()
	dpkg("--install", root+older)
	dpkg("--install", root+newer)
	h.write(dropIn, "[Service]\nExecStart=\nExecStart=/usr/lib/pullwarden/containerd\n") // of an image
	for _, path := range []string{"/usr/bin/pullwarden", "/usr/share/man/man8/pullwarden-install.8.gz", "/usr/share/bash-completion/completions/pullwarden"} {
		if _, err := os.Stat(root + path); err != nil && path != "/usr/bin/pullwarden" {
			t.Error(err)
		}
	}
	if link, err := os.Readlink(root + "/usr/bin/pullwarden"); err != nil || link != "/usr/lib/pullwarden/pullwarden" {
		t.Errorf("%s %v", link, err)
	}
	dpkg("--install", root+older)
	dpkg("--remove", "pullwarden-2.4")
	dpkg("--purge", "pullwarden-2.4")
	if diff := cmp.Diff(before, h.files()); diff != "" {
		t.Error(diff)
	}
}

// rpm installs, upgrades, goes back and removes, in a root of its own.
func TestRPMInTree(t *testing.T) {
	root := overlay(t, made(t, "debian"))
	h := &host{t: t, root: root}
	before := h.files()
	rpm := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "rpm", append([]string{"--root=" + root, "--nodeps"}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("rpm %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	older, newer := made(t, "old", "pullwarden-2.4-*.x86_64.rpm"), made(t, "new", "pullwarden-2.4-*.x86_64.rpm")
	rpm("--install", older)
	rpm("--upgrade", newer)
	h.write(dropIn, "[Service]\nExecStart=\nExecStart=/usr/lib/pullwarden/containerd\n")
	out, err := exec.CommandContext(t.Context(), "rpm", "--root="+root, "--query", "pullwarden-2.4").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "0.0.2") {
		t.Errorf("%v: %s", err, out)
	}
	rpm("--upgrade", "--oldpackage", older)
	if _, err := os.Stat(root + dropIn); err != nil {
		t.Errorf("the downgrade has taken the drop-in: %v", err)
	}
	if _, err := os.Stat(root + ourProgram); err != nil {
		t.Error(err)
	}
	rpm("--erase", "pullwarden-2.4")
	if diff := cmp.Diff(before, h.files()); diff != "" {
		t.Error(diff)
	}
}
