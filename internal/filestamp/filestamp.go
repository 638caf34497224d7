// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filestamp tells whether files have changed, without reading them:
// cheap enough to be done for each request.
package filestamp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"
)

// SettleTime is how long after a change files count as changed even if nothing
// tells a difference: two writes within one tick of the file system's clock can
// have the same time and size.
const SettleTime = 2 * time.Second

// Stamps are what some files and directories were. The zero value is of none,
// and never current.
type Stamps struct {
	files []stamp
	fresh bool // changed so recently that the stamps may hide a change
}

// stamp tells a file apart from any other, and from what it was before: by
// inode and change time, which nobody can set. A directory changes when a name
// in it does. Only the path is set when there is no such file.
type stamp struct {
	path          string
	device, inode uint64
	size, changed int64 // bytes, nanoseconds since 1970
}

// Take looks at files and directories, following links. They may be absent. It
// comes before their content is read: a change in between makes them look
// older, and leads to another look.
func Take(paths ...string) (Stamps, error) {
	s := Stamps{files: make([]stamp, 0, len(paths))}
	settled := time.Now().Add(-SettleTime).UnixNano()
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

// And returns both.
func (s Stamps) And(other Stamps) Stamps {
	return Stamps{files: slices.Concat(s.files, other.files), fresh: s.fresh || other.fresh}
}

// Current reports whether all are surely still what they were.
func (s Stamps) Current() bool {
	return len(s.files) > 0 && !s.fresh && !slices.ContainsFunc(s.files, func(was stamp) bool {
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
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}, fmt.Errorf("stat %s: a %T says nothing of changes", path, info.Sys())
	}
	return stamp{path: path, device: sys.Dev, inode: sys.Ino, size: sys.Size, changed: sys.Ctim.Nano()}, nil
}
