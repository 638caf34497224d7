// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/pullwarden/pullwarden/internal/filestamp"
)

// hostDirState is what a host directory was when it was read. The content is read
// again only when the stamps differ.
type hostDirState struct {
	dir    string // "" = there is none, and nothing can change
	stamps filestamp.Stamps
	sum    [sha256.Size]byte // of the content of all files
}

// readHostDirState reads hosts.toml, which must be right, and all files that count
// with it. No dir gives the state of nothing.
func readHostDirState(dir string) (*hostDirState, error) {
	s := &hostDirState{dir: dir}
	if dir == "" {
		return s, nil
	}
	stamps, err := filestamp.Take(dir, filepath.Join(dir, fileName))
	if err != nil {
		return nil, err
	}
	file, data, err := checkFile(dir)
	if err != nil {
		return nil, err
	}
	others := file.files(dir)
	if len(data) == 0 {
		if others, err = certificateFiles(dir); err != nil {
			return nil, err
		}
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%d\n%s", len(data), data)
	for _, path := range others {
		data, stamp, err := filestamp.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		stamps = stamps.And(stamp)
		_, _ = fmt.Fprintf(sum, "%q %v %d\n%s", path, err == nil, len(data), data)
	}
	sum.Sum(s.sum[:0])
	s.stamps = stamps
	return s, nil
}

// current reports whether the files of dir are surely what they were.
func (s *hostDirState) current(dir string) bool {
	return s.dir == dir && (dir == "" || s.stamps.Current())
}

// same reports whether two states have the same content.
func (s *hostDirState) same(other *hostDirState) bool {
	return s.dir == other.dir && s.sum == other.sum
}

// certificateFiles lists the files of a directory in Docker's layout, which
// containerd reads when there is no hosts.toml.
func certificateFiles(dir string) (files []string, err error) {
	entries, _, err := filestamp.ReadDir(dir)
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
