// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds a wait for something that takes seconds, on a machine that is busy.
const patience = 5 * time.Minute

// host is a Debian under a systemd of its own. Nothing of it outlives the test.
type host struct {
	t      *testing.T
	root   string // its file system
	leader int    // its process 1, as this machine knows it
}

// boot starts a host with stock containerd 2.4 in /usr/bin and its unit, after prepare has
// changed its files.
func boot(t *testing.T, prepare func(h *host)) *host {
	t.Helper()
	h := &host{t: t, root: overlay(t, made(t, "debian"))}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		h.copy(made(t, "stock", name), "/usr/bin/"+name)
	}
	h.copy("/bin/busybox", "/root/fs/busybox")
	// Cgroups are read-only here, which rootless containers may do without.
	h.write("/root/runc", "#!/bin/sh\nexec /usr/sbin/runc --rootless=true \"$@\"\n")
	h.copy(made(t, "stock", "ctr"), "/usr/bin/ctr")
	if prepare != nil {
		prepare(h)
	}
	cmd := exec.Command("systemd-nspawn", "--directory="+h.root, "--boot", "--register=no", "--keep-unit", "--private-network",
		"--capability=all", "--system-call-filter=@keyring", "--console=pipe", "--tmpfs=/var/lib/containerd:mode=755", "--machine=pullwarden-test")
	var console bytes.Buffer
	cmd.Stdout, cmd.Stderr = &console, &console
	h.check(cmd.Start())
	t.Cleanup(func() {
		if h.leader > 0 {
			_ = syscall.Kill(h.leader, syscall.SIGKILL) // and with it all of its processes
		} else {
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the console:\n%s", tail(console.String(), 30))
		}
	})
	h.findLeader(cmd.Process.Pid)
	h.until(func() string {
		out, code := h.run("systemctl", "is-active", "containerd.service")
		if code != 0 {
			return "containerd.service is " + out
		}
		return ""
	})
	return h
}

// overlay mounts a tree whose changes are in memory.
func overlay(t *testing.T, lower string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2g"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	root := filepath.Join(dir, "root")
	for _, name := range []string{root, dir + "/upper", dir + "/work"} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("overlay", root, "overlay", 0, "lowerdir="+lower+",upperdir="+dir+"/upper,workdir="+dir+"/work"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) })
	return root
}

// findLeader waits for the host's process 1, the child of nspawn that has another root.
func (h *host) findLeader(nspawn int) {
	h.t.Helper()
	id := strconv.Itoa(nspawn)
	h.until(func() string {
		children, err := os.ReadFile("/proc/" + id + "/task/" + id + "/children")
		h.check(err)
		for child := range strings.FieldsSeq(string(children)) {
			if name, err := os.ReadFile("/proc/" + child + "/comm"); err == nil && strings.TrimSpace(string(name)) == "systemd" {
				h.leader, _ = strconv.Atoi(child)
				return ""
			}
		}
		return "nspawn has not started systemd"
	})
}

func (h *host) check(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// until asks twice a second until nothing is missing.
func (h *host) until(missing func() string) {
	h.t.Helper()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		what := missing()
		if what == "" {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("after %v: %s", patience, what)
		}
	}
}

// command is one that runs on the host.
func (h *host) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--target", strconv.Itoa(h.leader), "--all"}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "COLUMNS=200", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"}
	return cmd
}

// run runs a command on the host, and returns both of its outputs and its exit code.
func (h *host) run(args ...string) (out string, code int) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	return h.output(h.command(ctx, args...))
}

func (h *host) output(cmd *exec.Cmd) (out string, code int) {
	h.t.Helper()
	both, err := cmd.CombinedOutput()
	if exited, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || !exited.Exited()) {
		h.t.Fatalf("%v: %v\n%s", cmd.Args, err, both)
	}
	return strings.TrimSpace(string(both)), cmd.ProcessState.ExitCode()
}

// must runs a command that has to succeed.
func (h *host) must(args ...string) string {
	h.t.Helper()
	out, code := h.run(args...)
	if code != 0 {
		h.t.Fatalf("%v: exit %d\n%s", args, code, out)
	}
	return out
}

// fails runs a command that has to exit with 1 and say these words.
func (h *host) fails(words []string, args ...string) string {
	h.t.Helper()
	out, code := h.run(args...)
	if code != 1 {
		h.t.Errorf("%v: exit %d\n%s", args, code, out)
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			h.t.Errorf("%v does not say %q:\n%s", args, word, out)
		}
	}
	return out
}

func (h *host) write(path, text string) {
	h.t.Helper()
	h.check(os.MkdirAll(filepath.Dir(h.root+path), 0o755))
	h.check(os.WriteFile(h.root+path, []byte(text), 0o755))
}

func (h *host) copy(from, to string) {
	h.t.Helper()
	data, err := os.ReadFile(from)
	h.check(err)
	h.write(to, string(data))
}

func tail(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// outside is a command that has only the host's processes in common with it, as a container
// with hostPID has. systemd talks to none whose process it cannot see.
func (h *host) outside(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(h.t.Context(), "nsenter", append([]string{"--target", strconv.Itoa(h.leader), "--pid"}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "COLUMNS=200"}
	return cmd
}
