// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const selinux = "security.selinux"

// label gives our daemon the SELinux label of the node's own, which decides the domain that
// it runs in. Without SELinux, or without our daemon, it does nothing.
func (t tree) label(stock string) error {
	if stock == "" {
		return nil
	}
	wanted, err := labelOf(t.path(stock))
	if err != nil || wanted == "" {
		return err
	}
	path := t.path(Dir, daemon)
	if now, err := labelOf(path); err != nil || now == wanted || now == "" {
		return err
	}
	if err := unix.Setxattr(path, selinux, []byte(wanted), 0); err != nil {
		return fmt.Errorf("the SELinux label of %s/%s: %w", Dir, daemon, err)
	}
	return nil
}

// labelOf returns a file's label, "" for none.
func labelOf(path string) (string, error) {
	buffer := make([]byte, 4096) // SELinux allows no longer ones
	n, err := unix.Getxattr(path, selinux, buffer)
	for _, none := range []error{unix.ENODATA, unix.ENOTSUP, unix.ENOENT} {
		if errors.Is(err, none) {
			return "", nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("the SELinux label of %s: %w", path, err)
	}
	return string(buffer[:n]), nil
}
