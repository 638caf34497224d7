// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package durable writes files that outlast a crash of the machine.
package durable

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/pkg/atomicfile"
)

const dirMode = 0o700

// WriteFile puts a file in place with its whole content or not at all, and makes
// its directory where there is none. When it returns nil, the file is on disk. A
// crash in the middle may leave an unfinished file of another name beside it.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	f, err := atomicfile.New(path, mode)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Cancel())
	}
	if err := f.Close(); err != nil {
		return err
	}
	return SyncDir(dir) // the new name is the directory's
}

// SyncDir brings the names in a directory to the disk: those that were made, and those that
// were taken away.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
