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
	text   []byte // of hosts.toml; empty = there is none
	stamps filestamp.Stamps
	sum    [sha256.Size]byte // of the content of all files
	ofText [sha256.Size]byte // of text alone
}

// seen returns the state for as long as its set is kept: without the text.
func (s *hostDirState) seen() *hostDirState {
	kept := *s
	kept.text = nil
	return &kept
}

// readHostDirState reads hosts.toml, which must be right, and all files that count
// with it. No dir gives the state of nothing. With an error the state has only stamps,
// which tell when another read may go better, and the sum of the text, if that was read.
func readHostDirState(dir string) (*hostDirState, error) {
	if dir == "" {
		return &hostDirState{}, nil
	}
	stamps, err := filestamp.Take(dir, filepath.Join(dir, fileName))
	if err != nil {
		return &hostDirState{dir: dir}, err
	}
	text, err := readText(dir)
	if err != nil {
		return &hostDirState{dir: dir, stamps: stamps}, err
	}
	s, err := stateOf(dir, text)
	s.stamps = stamps.And(s.stamps)
	return s, err
}

// stateOf returns the state of a directory whose hosts.toml is text, with the stamps
// of all other files that count. With an error it has the sum of the text, and only the
// stamps of the files that were read so far.
func stateOf(dir string, text []byte) (*hostDirState, error) {
	s := &hostDirState{dir: dir, ofText: sha256.Sum256(text)}
	file, err := parse(dir, text)
	if err != nil {
		return s, err
	}
	others := file.files(dir)
	if len(text) == 0 {
		var stamps filestamp.Stamps
		others, stamps, err = certificateFiles(dir)
		if s.stamps = stamps; err != nil {
			return s, err
		}
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%d\n%s", len(text), text)
	for _, path := range others {
		data, stamp, err := filestamp.ReadFile(path)
		s.stamps = s.stamps.And(stamp)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
		_, _ = fmt.Fprintf(sum, "%q %v %d\n%s", path, err == nil, len(data), data)
	}
	sum.Sum(s.sum[:0])
	s.text = text
	return s, nil
}

// version stands for the directory with that content.
func (s *hostDirState) version() string { return fmt.Sprintf("%s %x", s.dir, s.sum[:8]) }

// current reports whether the files of dir are surely what they were.
func (s *hostDirState) current(dir string) bool {
	return s.dir == dir && (dir == "" || s.stamps.Current())
}

// same reports whether two states have the same content.
func (s *hostDirState) same(other *hostDirState) bool {
	return s.dir == other.dir && s.sum == other.sum
}

// certificateFiles lists the files of a directory in Docker's layout, which
// containerd reads when there is no hosts.toml. It passes over directories, whatever their names.
func certificateFiles(dir string) (files []string, stamps filestamp.Stamps, err error) {
	entries, stamps, err := filestamp.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		switch filepath.Ext(e.Name()) {
		case ".crt", ".cert", ".key":
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, stamps, err
}

// files lists the files that hosts.toml in dir names.
func (f *hostsFile) files(dir string) []string {
	files := f.names()
	for i, name := range files {
		if !filepath.IsAbs(name) {
			files[i] = filepath.Join(dir, name)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// relative lists the files that hosts.toml names by paths in its directory, each once.
func (f *hostsFile) relative() []string {
	names := slices.DeleteFunc(f.names(), filepath.IsAbs)
	for i, name := range names {
		names[i] = filepath.Clean(name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// names lists the names of certificates and keys in hosts.toml.
func (f *hostsFile) names() (names []string) {
	entries := []hostEntry{f.hostEntry}
	for _, e := range f.Hosts {
		entries = append(entries, e)
	}
	for _, e := range entries {
		names = append(names, append(stringsIn(e.CA), stringsIn(e.Client)...)...)
	}
	return names
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
