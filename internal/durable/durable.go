// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package durable writes files that outlast a crash of the machine.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/pkg/atomicfile"
)

const dirMode = 0o700

// WriteFile puts a file in place with its whole content or not at all, and makes
// its directory where there is none. When it returns nil, the file is on disk. A
// crash in the middle may leave an unfinished file of another name beside it. The
// error is the same at each call that fails for the same reason.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	if err := replace(path, data, mode); err != nil {
		return WithPath(err, path)
	}
	return SyncDir(dir) // the new name is the directory's
}

func replace(path string, data []byte, mode os.FileMode) error {
	f, err := atomicfile.New(path, mode)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Cancel())
	}
	return f.Close()
}

// WithPath returns the error of a temporary file as one of the file at a path, which it was to become or is a copy of:
// its own name is another one at each try, says nothing to an operator, and keeps errors from being compared.
func WithPath(err error, path string) error {
	if e := new(fs.PathError); errors.As(err, &e) {
		return &fs.PathError{Op: e.Op, Path: path, Err: e.Err}
	}
	if e := new(os.LinkError); errors.As(err, &e) {
		return &fs.PathError{Op: e.Op, Path: path, Err: e.Err}
	}
	return err
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
