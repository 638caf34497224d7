// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// Path returns a path in the daemon's directory.
func (d *Daemon) Path(elem ...string) string {
	return filepath.Join(append([]string{d.dir}, elem...)...)
}

// Address returns the path of the daemon's socket.
func (d *Daemon) Address() string { return filepath.Join(d.sockets, "s") }

// LogFile returns the path of the daemon's log: JSON lines, over all its starts.
func (d *Daemon) LogFile() string { return d.Path("log") }

// Log returns what is in LogFile; nothing before the first start.
func (d *Daemon) Log() (string, error) {
	b, err := os.ReadFile(d.LogFile())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return string(b), err
}

// HostsDirs returns the directories of hosts.toml files, in CRI's order.
func (d *Daemon) HostsDirs() []string {
	var dirs []string
	for i := range max(d.Options.Hosts, 1) {
		dirs = append(dirs, d.Path(fmt.Sprintf("hosts%d", i)))
	}
	return dirs
}

// WriteHosts writes the hosts.toml of a registry's name, in the first directory.
func (d *Daemon) WriteHosts(name, content string) error {
	return d.Write(filepath.Join(d.HostsDirs()[0], name, "hosts.toml"), content)
}

// WriteRules writes a rule file.
func (d *Daemon) WriteRules(name, content string) error {
	return d.Write(d.Path("rules", name), content)
}

// Server returns the lines of hosts.toml that make r the registry itself.
func (d *Daemon) Server(r *resolvertest.Registry) (string, error) {
	trust, err := d.trust(r)
	return fmt.Sprintf("server = %q\n%s", r.URL(), trust), err
}

// Mirror returns the table of hosts.toml for r as a mirror that does
// everything but push, with more lines of that table.
func (d *Daemon) Mirror(r *resolvertest.Registry, lines string) (string, error) {
	trust, err := d.trust(r)
	return fmt.Sprintf("[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\n%s%s\n", r.URL(), trust, lines), err
}

// trust returns the lines of hosts.toml that a registry with TLS needs.
func (d *Daemon) trust(r *resolvertest.Registry) (string, error) {
	if r.CAPEM() == nil {
		return "", nil
	}
	path := d.Path("files", r.Host()+".ca.pem")
	return fmt.Sprintf("ca = %q\n", path), d.Write(path, string(r.CAPEM()))
}

// Write replaces a file in one step, so that no reader sees half of it. It
// makes the file's directory.
func (d *Daemon) Write(path, content string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp := filepath.Join(dir, "."+filepath.Base(path)+".new")
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// makeDirs makes the directories that writers of files, and containerd, expect.
func (d *Daemon) makeDirs() error {
	for _, dir := range append([]string{d.dir, d.Path("rules"), d.Path("verifiers")}, d.HostsDirs()...) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// removeFiles takes mounts and files away. What is still mounted is not
// removed: it may be somebody else's.
func (d *Daemon) removeFiles() error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(d.dir))
	if err != nil {
		return fmt.Errorf("read the mounts below %s: %w", d.dir, err)
	}
	var errs []error
	for _, m := range slices.Backward(mounts) {
		if err := syscall.Unmount(m.Mountpoint, syscall.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", m.Mountpoint, err))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(append(errs, os.RemoveAll(d.sockets))...)
}

// Tail returns the last n lines of a text.
func Tail(s string, n int) string {
	lines := strings.SplitAfter(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
