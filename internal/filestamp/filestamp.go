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
// can leave the same time and size. It counts from the first sight of a file
// whose change time lies in the future: see [Stamps.Following].
const SettleTime = 2 * time.Second

// MaxFile bounds the files that are read, in bytes: all that is read here was
// written by hand, or stands for it.
const MaxFile = 16 << 20

// Stamps identify a state of some files and directories. The zero value has no
// file, and is never current.
type Stamps struct {
	files      []file
	unreadable bool // a path could not be read: no state is known
}

// file is a stamp and when it was seen.
type file struct {
	stamp
	since time.Time // when this stamp was first seen
	taken time.Time // when it was last seen, before the content was read
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
	s := Stamps{files: make([]file, 0, len(paths))}
	now := time.Now()
	for _, path := range paths {
		f, err := take(path)
		if err != nil {
			return Stamps{}, err
		}
		s.files = append(s.files, file{stamp: f, since: now, taken: now})
	}
	return s, nil
}

// And returns the stamps of both.
func (s Stamps) And(other Stamps) Stamps {
	return Stamps{files: slices.Concat(s.files, other.files), unreadable: s.unreadable || other.unreadable}
}

// Following returns the stamps of files that were stamped as before, an earlier
// time: a file with the same stamp has had it since then. Without it, files whose
// change time lies in the future are never current until that time has come.
func (s Stamps) Following(before Stamps) Stamps {
	since := make(map[stamp]time.Time, len(before.files))
	for _, f := range before.files {
		since[f.stamp] = f.since
	}
	s.files = slices.Clone(s.files)
	for i := range s.files {
		if t, ok := since[s.files[i].stamp]; ok && t.Before(s.files[i].since) {
			s.files[i].since = t
		}
	}
	return s
}

// Current reports whether all files are unchanged for sure.
func (s Stamps) Current() bool {
	now := time.Now()
	hides := func(f file) bool { return !f.settled(now) }
	return !s.unreadable && !slices.ContainsFunc(s.files, hides) && s.Same()
}

// settled reports whether a change after the file was read would have changed
// its stamp. A change less than SettleTime before may be followed by one within
// the same tick of the clock.
//
// A change time in the future comes from a clock that was set back, or from that
// of another machine. Such a file has settled once SettleTime has gone by on this
// machine's monotonic clock between its first sight and its last. When the time
// comes, the same tick may come a second time, and the file is read again.
func (f file) settled(now time.Time) bool {
	changed := time.Unix(0, f.changed)
	if changed.After(f.taken) {
		return f.taken.Sub(f.since) >= SettleTime && changed.After(now)
	}
	return !changed.After(f.taken.Add(-SettleTime))
}

// Same reports whether all files have the same stamps. Files that changed less
// than SettleTime before they were stamped may differ nevertheless.
func (s Stamps) Same() bool {
	return len(s.files) > 0 && !slices.ContainsFunc(s.files, func(was file) bool {
		now, err := take(was.path)
		return err != nil || now != was.stamp
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
var never = Stamps{unreadable: true}

// read opens a path without waiting for anybody at its other end.
func read(path string, flag int, content func(*os.File, fs.FileInfo) error) (Stamps, error) {
	now := time.Now()
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|flag, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Stamps{files: []file{{stamp: stamp{path: path}, since: now, taken: now}}}, err
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
	return Stamps{files: []file{{stamp: was, since: now, taken: now}}}, nil
}
