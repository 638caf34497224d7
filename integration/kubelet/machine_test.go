// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// writable are the places that the daemon, its shims and the kubelet write to.
// Those of a kubelet that no flag moves are below them.
var writable = []string{"/tmp", "/run", "/var/lib", "/var/log"}

// sysctls are the values that the kubelet wants the machine to have.
var sysctls = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// prepareMachine makes the namespaces that this process was started in a machine
// for one kubelet, and ends the process where it cannot.
func prepareMachine() {
	for _, step := range []func() error{mountFiles, maskSysctls, raiseLoopback} {
		if err := step(); err != nil {
			fmt.Fprintln(os.Stderr, "prepare the machine of this test:", err)
			os.Exit(1)
		}
	}
}

// mountFiles makes all file systems of the machine read-only but for the writable
// ones, which are empty.
func mountFiles() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("part from the machine's mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	checkout, err := os.Open("../..")
	if err != nil {
		return err
	}
	defer func() { _ = checkout.Close() }()
	for _, dir := range writable {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2g,mode=1777"); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	if err := show(checkout); err != nil {
		return fmt.Errorf("mount the checkout over what hides it: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make / read-only: %w", err)
	}
	return os.Setenv("TMPDIR", "/tmp")
}

// show mounts a directory where it is, unless it is to be seen there. It may be below a
// writable place, with the programs of these tests.
func show(dir *os.File) error {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return err
	}
	there, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if opened, err := dir.Stat(); err != nil || os.SameFile(there, opened) {
		return err
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), path, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}

// maskSysctls shows the kubelet the sysctls that it wants, whatever they are.
func maskSysctls() error {
	for name, value := range sysctls {
		path := filepath.Join("/run", strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(path, []byte(value+"\n"), 0o600); err != nil {
			return err
		}
		if err := unix.Mount(path, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mask sysctl %s: %w", name, err)
		}
	}
	return nil
}

// raiseLoopback gives this network its one interface, 127.0.0.1.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("raise the loopback interface: %w", err)
	}
	return nil
}
