// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filestamp tells whether files have changed, without reading them:
// cheap enough to be done for each request. It reads regular files only, and no
// path makes it wait: that of a FIFO is an error.
package filestamp

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// SettleTime is how long after a change a file still counts as changed, even if
// its stamp is the same: two writes within one tick of the file system's clock
// can leave the same time and size.
const SettleTime = 2 * time.Second

// MaxFile bounds the files that are read, in bytes: all that is read here was
// written by hand, or stands for it.
const MaxFile = 16 << 20

// Stamps identify a state of some files and directories. The zero value has no
// file, and is never current.
type Stamps struct {
	files []stamp
	fresh bool // changed so recently that the stamps may hide a change
}

// stamp tells a file from any other file and from its own earlier states, by
// inode and change time, which nobody can set. A directory changes when a name
// in it does. For a missing file only the path is set.
type stamp struct {
	path          string
	device, inode uint64
	size, changed int64 // bytes, nanoseconds since 1970
}

// Take stamps files and directories, following links. They may be missing. Call
// it before reading their content: after a change in between the stamps are not
// current, and the content is read again.
func Take(paths ...string) (Stamps, error) {
	s := Stamps{files: make([]stamp, 0, len(paths))}
	settled := settledBefore()
	for _, path := range paths {
		f, err := take(path)
		if err != nil {
			return Stamps{}, err
		}
		s.files = append(s.files, f)
		s.fresh = s.fresh || f.changed > settled
	}
	return s, nil
}

// settledBefore returns the change time after which a file is fresh, in
// nanoseconds since 1970.
func settledBefore() int64 { return time.Now().Add(-SettleTime).UnixNano() }

// And returns the stamps of both.
func (s Stamps) And(other Stamps) Stamps {
	return Stamps{files: slices.Concat(s.files, other.files), fresh: s.fresh || other.fresh}
}

// Current reports whether all files are unchanged for sure.
func (s Stamps) Current() bool { return !s.fresh && s.Same() }

// Same reports whether all files have the same stamps. Files that changed less
// than SettleTime before they were stamped may differ nevertheless.
func (s Stamps) Same() bool {
	return len(s.files) > 0 && !slices.ContainsFunc(s.files, func(was stamp) bool {
		now, err := take(was.path)
		return err != nil || now != was
	})
}

func take(path string) (stamp, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return stamp{path: path}, nil
	}
	if err != nil {
		return stamp{}, err
	}
	return of(path, info)
}

func of(path string, info fs.FileInfo) (stamp, error) {
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}, fmt.Errorf("stat %s: a %T says nothing of changes", path, info.Sys())
	}
	return stamp{path: path, device: sys.Dev, inode: sys.Ino, size: sys.Size, changed: sys.Ctim.Nano()}, nil
}

// ReadDir lists a directory in the order of names, with the stamp of the very
// directory that was listed, even if the path leads elsewhere meanwhile. A
// missing directory also gets a stamp. On any other error the stamp is never
// current.
func ReadDir(path string) ([]fs.DirEntry, Stamps, error) {
	var entries []fs.DirEntry
	s, err := read(path, syscall.O_DIRECTORY, func(f *os.File, _ fs.FileInfo) (err error) {
		entries, err = f.ReadDir(-1)
		return err
	})
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, s, err
}

// ReadFile reads a regular file of at most MaxFile bytes, with the stamp of the
// very file that was read. A missing file also gets a stamp. On any other error
// the stamp is never current.
func ReadFile(path string) ([]byte, Stamps, error) {
	var data []byte
	s, err := read(path, 0, func(f *os.File, info fs.FileInfo) (err error) {
		if !info.Mode().IsRegular() {
			return &fs.PathError{Op: "read", Path: path, Err: errIrregular}
		}
		data, err = io.ReadAll(io.LimitReader(f, MaxFile+1))
		if err == nil && len(data) > MaxFile {
			data, err = nil, &fs.PathError{Op: "read", Path: path, Err: errTooLarge}
		}
		return err
	})
	return data, s, err
}

var (
	errIrregular = errors.New("it is not a regular file")
	errTooLarge  = fmt.Errorf("it has more than %d bytes", MaxFile)
)

// never is not current, nor is anything it is joined with.
var never = Stamps{fresh: true}

// read opens a path without waiting for anybody at its other end.
func read(path string, flag int, content func(*os.File, fs.FileInfo) error) (Stamps, error) {
	settled := settledBefore()
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|flag, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Stamps{files: []stamp{{path: path}}}, err
	}
	if err != nil {
		return never, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return never, err
	}
	was, err := of(path, info)
	if err == nil {
		err = content(f, info)
	}
	if err != nil {
		return never, err
	}
	return Stamps{files: []stamp{was}, fresh: was.changed > settled}, nil
}
