// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// settleTime is how long after a change its files are read again even if
// nothing else tells a difference: two writes within one tick of the file
// system's clock can have the same time and size.
const settleTime = 2 * time.Second

// snapshot is what a host directory was when it was read. Comparing stamps is
// cheap enough to be done for each image; the content is read only when they
// differ.
type snapshot struct {
	dir   string // "" = there is none, and nothing can change
	files []stamp
	sum   [sha256.Size]byte // of the content of all files
	fresh bool              // changed so recently that the stamps may hide a change
}

// stamp tells a file apart from any other, and from what it was before: by
// inode and change time, which nobody can set. Only the path is set when there
// is no such file.
type stamp struct {
	path               string
	device, inode      uint64
	size, changed, mod int64 // bytes, nanoseconds
}

func stampOf(path string) (stamp, error) {
	// A link, as a mounted ConfigMap has them, is followed.
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return stamp{path: path}, nil
	}
	if err != nil {
		return stamp{}, err
	}
	s := stamp{path: path, size: info.Size(), mod: info.ModTime().UnixNano()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode, s.changed = sys.Dev, sys.Ino, sys.Ctim.Nano()
	}
	return s, nil
}

// readSnapshot reads hosts.toml, which must be right, and all files that count
// with it. No dir gives a snapshot of nothing.
func readSnapshot(dir string) (*snapshot, error) {
	s := &snapshot{dir: dir}
	if dir == "" {
		return s, nil
	}
	// Stamps come before what they stand for is read: a change in between makes
	// them look older, and leads to another look.
	if err := s.stamp(dir, filepath.Join(dir, hostsFileName)); err != nil {
		return nil, err
	}
	file, data, err := checkHostsFile(dir)
	if err != nil {
		return nil, err
	}
	others := file.files(dir)
	if len(data) == 0 {
		if others, err = certificateFiles(dir); err != nil {
			return nil, err
		}
	}
	if err := s.stamp(others...); err != nil {
		return nil, err
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%d\n%s", len(data), data)
	for _, path := range others {
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		_, _ = fmt.Fprintf(sum, "%q %v %d\n%s", path, err == nil, len(data), data)
	}
	sum.Sum(s.sum[:0])
	settled := time.Now().Add(-settleTime).UnixNano()
	s.fresh = slices.ContainsFunc(s.files, func(f stamp) bool { return f.changed > settled })
	return s, nil
}

func (s *snapshot) stamp(paths ...string) error {
	for _, path := range paths {
		f, err := stampOf(path)
		if err != nil {
			return err
		}
		s.files = append(s.files, f)
	}
	return nil
}

// current reports whether the files of dir are surely what they were.
func (s *snapshot) current(dir string) bool {
	if s.dir != dir || s.fresh {
		return false
	}
	return !slices.ContainsFunc(s.files, func(was stamp) bool {
		now, err := stampOf(was.path)
		return err != nil || now != was
	})
}

// same reports whether two snapshots have the same content.
func (s *snapshot) same(other *snapshot) bool { return s.dir == other.dir && s.sum == other.sum }

// certificateFiles lists the files of a directory in Docker's layout, which
// containerd reads when there is no hosts.toml.
func certificateFiles(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".crt", ".cert", ".key":
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}

// files lists the files that hosts.toml in dir names.
func (f *hostsFile) files(dir string) (files []string) {
	entries := []hostEntry{f.hostEntry}
	for _, e := range f.Hosts {
		entries = append(entries, e)
	}
	for _, e := range entries {
		for _, name := range append(stringsIn(e.CA), stringsIn(e.Client)...) {
			if !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// stringsIn returns the strings of a value: itself, or in its lists.
func stringsIn(value any) (list []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, item := range v {
			list = append(list, stringsIn(item)...)
		}
	}
	return list
}
