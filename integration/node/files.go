// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/moby/sys/mountinfo"
)

// Path returns a path in the node's directory.
func (n *Node) Path(elem ...string) string {
	return filepath.Join(append([]string{n.dir}, elem...)...)
}

// Address returns the path of the daemon's socket.
func (n *Node) Address() string { return filepath.Join(n.sockets, "s") }

// WriteRules writes a rule file.
func (n *Node) WriteRules(name, content string) error {
	return n.Write(n.Path("rules", name), content)
}

// RemoveRules removes a rule file.
func (n *Node) RemoveRules(name string) error { return os.Remove(n.Path("rules", name)) }

// Write replaces a file in one step, so that no reader sees half of it. It
// makes the file's directory.
func (n *Node) Write(path, content string) error {
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
func (n *Node) makeDirs() error {
	for _, dir := range append([]string{n.dir, n.Path("rules"), n.Path("verifiers")}, n.HostsDirs()...) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// removeFiles takes mounts and files away. Files below a mount that stays are
// not removed: they may be somebody else's.
func (n *Node) removeFiles() error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(n.dir))
	if err != nil {
		return fmt.Errorf("read the mounts below %s: %w", n.dir, err)
	}
	var errs []error
	for _, m := range slices.Backward(mounts) {
		if err := syscall.Unmount(m.Mountpoint, syscall.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", m.Mountpoint, err))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, os.RemoveAll(n.dir))
	}
	return errors.Join(append(errs, os.RemoveAll(n.sockets))...)
}
